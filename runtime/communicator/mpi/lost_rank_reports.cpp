// SPDX-License-Identifier: Apache-2.0
// Overrides PMIx_Notify_event() of libpmix: the dynamic linker finds libmuster's first, because libmuster is
// the library that links both Open MPI and PMIx.
#include "communicator/mpi/lost_rank_reports.hpp"

#include <dlfcn.h>
#include <pmix.h>

#include <atomic>

namespace muster::detail {
namespace {

std::atomic<bool> suppress_reports{false};

}  // namespace

void suppress_lost_rank_reports() { suppress_reports = true; }

}  // namespace muster::detail

extern "C" [[gnu::visibility("default")]] pmix_status_t PMIx_Notify_event(
    pmix_status_t status, const pmix_proc_t* source, pmix_data_range_t range, const pmix_info_t info[],
    size_t ninfo, pmix_op_cbfunc_t cbfunc, void* cbdata) {
  // The event that ompi_errhandler_proc_failed_internal() of Open MPI sends.
  if (muster::detail::suppress_reports && status == PMIX_ERR_PROC_TERM_WO_SYNC && range == PMIX_RANGE_LOCAL)
    return PMIX_OPERATION_SUCCEEDED;
  using Function = decltype(&PMIx_Notify_event);
  static auto const next = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "PMIx_Notify_event"));
  return next != nullptr ? next(status, source, range, info, ninfo, cbfunc, cbdata) : PMIX_ERR_NOT_SUPPORTED;
}
