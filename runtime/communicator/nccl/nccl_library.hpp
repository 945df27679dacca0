// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <string>

#include "shared_object.hpp"

// The oldest NCCL whose interface Muster uses; dependencies.cmake requires it too.
static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0), "Muster needs NCCL 2.23 or later");

namespace muster::detail {

/// NCCL_SHRINK_ABORT of NCCL 2.27 and later: cancels operations in flight first.
inline constexpr int nccl_shrink_abort = 1;

/// The functions of NCCL that the runtime calls.
struct NcclLibrary {
  /// Loads libnccl.so.2, or the library that MUSTER_NCCL_LIBRARY names.
  /// @throws Error(ErrorCode::device), also for a library older than 2.23.
  NcclLibrary();

  SharedObject object;
  decltype(::ncclGetVersion)* get_version = nullptr;
  decltype(::ncclGetErrorString)* get_error_string = nullptr;
  decltype(::ncclGetLastError)* get_last_error = nullptr;
  decltype(::ncclGetUniqueId)* get_unique_id = nullptr;
  decltype(::ncclCommInitRankConfig)* comm_init_rank_config = nullptr;
  decltype(::ncclCommInitRankScalable)* comm_init_rank_scalable = nullptr;
  decltype(::ncclCommSplit)* comm_split = nullptr;
  /// ncclCommShrink; null before NCCL 2.27.
  ncclResult_t (*comm_shrink)(ncclComm_t, int* excluded, int count, ncclComm_t* made, ncclConfig_t*,
                              int flags) = nullptr;
  decltype(::ncclCommGetAsyncError)* comm_get_async_error = nullptr;
  decltype(::ncclCommFinalize)* comm_finalize = nullptr;
  decltype(::ncclCommDestroy)* comm_destroy = nullptr;
  decltype(::ncclCommAbort)* comm_abort = nullptr;
  decltype(::ncclAllReduce)* all_reduce = nullptr;
  decltype(::ncclReduce)* reduce = nullptr;
  decltype(::ncclBroadcast)* broadcast = nullptr;
  decltype(::ncclAllGather)* all_gather = nullptr;
  decltype(::ncclReduceScatter)* reduce_scatter = nullptr;
  decltype(::ncclSend)* send = nullptr;
  decltype(::ncclRecv)* recv = nullptr;
  decltype(::ncclGroupStart)* group_start = nullptr;
  decltype(::ncclGroupEnd)* group_end = nullptr;
  // Null if the library lacks them.
  decltype(::ncclMemAlloc)* mem_alloc = nullptr;
  decltype(::ncclMemFree)* mem_free = nullptr;
  decltype(::ncclCommRegister)* comm_register = nullptr;
  decltype(::ncclCommDeregister)* comm_deregister = nullptr;

  /// "2.28.9"
  std::string version;

  /// NCCL's text for a result, with the last error detail that it recorded for `comm` (null: for no
  /// communicator).
  std::string reason(ncclResult_t result, ncclComm_t comm) const;
};

}  // namespace muster::detail
