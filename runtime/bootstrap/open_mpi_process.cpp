// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/open_mpi_process.hpp"

#include <dlfcn.h>
#include <pmix.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "log.hpp"

namespace muster::bootstrap {
namespace {

// The first fields of opal_process_info in Open MPI 5 and 6 (opal/util/proc.h, which is not installed).
struct ProcessInfo {
  std::uint32_t job, rank;
  pmix_proc_t process;
};

// Open MPI 4 has other data there, and an initialised MPI already has the process's name.
bool is_unnamed(const ProcessInfo& info) {
  if (info.job != UINT32_MAX || info.rank != UINT32_MAX || info.process.rank != PMIX_RANK_INVALID)
    return false;
  return std::all_of(std::begin(info.process.nspace), std::end(info.process.nspace),
                     [](char c) { return c == 0; });
}

}  // namespace

void set_open_mpi_process_name() {
  auto* const info = static_cast<ProcessInfo*>(dlsym(RTLD_DEFAULT, "opal_process_info"));
  if (info == nullptr || PMIx_Initialized() == 0 || !is_unnamed(*info)) return;
  PMIx_Init(&info->process, nullptr, 0);  // counts its calls
  PMIx_Finalize(nullptr, 0);
  log::debug("gave Open MPI this process's name from PMIx");
}

}  // namespace muster::bootstrap
