// SPDX-License-Identifier: Apache-2.0
// PMIx_Notify_event() of libpmix, behind this one of libmuster: the dynamic linker finds libmuster's first,
// since libmuster is what needs both Open MPI and PMIx.
#include "communicator/mpi/lost_rank_reports.hpp"

#include <dlfcn.h>
#include <pmix.h>

#include <atomic>

namespace muster::detail {
namespace {

std::atomic<bool> keeps_reports{false};

}  // namespace

void keep_lost_rank_reports() { keeps_reports = true; }

}  // namespace muster::detail

extern "C" [[gnu::visibility("default")]] pmix_status_t PMIx_Notify_event(
    pmix_status_t status, const pmix_proc_t* source, pmix_data_range_t range, const pmix_info_t info[],
    size_t ninfo, pmix_op_cbfunc_t cbfunc, void* cbdata) {
  // What Open MPI reports in ompi_errhandler_proc_failed_internal().
  if (muster::detail::keeps_reports && status == PMIX_ERR_PROC_TERM_WO_SYNC && range == PMIX_RANGE_LOCAL)
    return PMIX_OPERATION_SUCCEEDED;
  using Function = decltype(&PMIx_Notify_event);
  static auto const next = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "PMIx_Notify_event"));
  return next != nullptr ? next(status, source, range, info, ninfo, cbfunc, cbdata) : PMIX_ERR_NOT_SUPPORTED;
}
