// SPDX-License-Identifier: Apache-2.0
// For tests/bench/join: the time that PMIx alone takes to publish a record of every rank and, with the
// argument "get", until every rank has read all records.
#include <pmix.h>

#include <cstring>
#include <string>

#include "stopwatch.hpp"

namespace {

constexpr const char* record_name = "bench.record";

int fail(const char* what, pmix_status_t status) {
  std::fprintf(stderr, "join_pmix: %s: %s\n", what, PMIx_Error_string(status));
  return 1;
}

pmix_status_t read_records(const pmix_proc_t& self) {
  pmix_proc_t of = self;
  of.rank = PMIX_RANK_WILDCARD;
  pmix_value_t* value = nullptr;
  pmix_status_t status = PMIx_Get(&of, PMIX_JOB_SIZE, nullptr, 0, &value);
  if (status != PMIX_SUCCESS) return status;
  auto const ranks = value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  for (of.rank = 0; of.rank < ranks; ++of.rank) {
    status = PMIx_Get(&of, record_name, nullptr, 0, &value);
    if (status != PMIX_SUCCESS) return status;
    PMIX_VALUE_RELEASE(value);
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
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
  status = PMIx_Put(PMIX_GLOBAL, record_name, &value);
  if (status == PMIX_SUCCESS) status = PMIx_Commit();
  if (status != PMIX_SUCCESS) return fail("PMIx_Put", status);
  pmix_info_t collect;
  PMIX_INFO_CONSTRUCT(&collect);
  bool const yes = true;
  PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
  status = PMIx_Fence(nullptr, 0, &collect, 1);
  PMIX_INFO_DESTRUCT(&collect);
  if (status != PMIX_SUCCESS) return fail("PMIx_Fence", status);
  if (argc > 1 && std::strcmp(argv[1], "get") == 0) status = read_records(self);
  if (status != PMIX_SUCCESS) return fail("PMIx_Get", status);
  stopwatch.print();
  return PMIx_Finalize(nullptr, 0) == PMIX_SUCCESS ? 0 : 1;
}
