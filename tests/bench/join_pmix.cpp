// SPDX-License-Identifier: Apache-2.0
// For tests/bench/join: the time that PMIx alone takes to exchange a record of every rank with every rank.
#include <pmix.h>

#include <cstring>
#include <string>

#include "stopwatch.hpp"

namespace {

int fail(const char* what, pmix_status_t status) {
  std::fprintf(stderr, "join_pmix: %s: %s\n", what, PMIx_Error_string(status));
  return 1;
}

}  // namespace

int main() {
  Stopwatch const stopwatch;
  pmix_proc_t self;
  pmix_status_t status = PMIx_Init(&self, nullptr, 0);
  if (status != PMIX_SUCCESS) return fail("PMIx_Init", status);
  std::string record(400, 'x');  // the length of a hello
  pmix_value_t value;
  PMIX_VALUE_CONSTRUCT(&value);
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo.bytes = record.data();
  value.data.bo.size = record.size();
  status = PMIx_Put(PMIX_GLOBAL, "bench.record", &value);
  if (status == PMIX_SUCCESS) status = PMIx_Commit();
  if (status != PMIX_SUCCESS) return fail("PMIx_Put", status);
  pmix_info_t collect;
  PMIX_INFO_CONSTRUCT(&collect);
  bool const yes = true;
  PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
  status = PMIx_Fence(nullptr, 0, &collect, 1);
  PMIX_INFO_DESTRUCT(&collect);
  if (status != PMIX_SUCCESS) return fail("PMIx_Fence", status);
  stopwatch.print();
  return PMIx_Finalize(nullptr, 0) == PMIX_SUCCESS ? 0 : 1;
}
