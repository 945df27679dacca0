// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <cstddef>
#include <string>

#include "shared_object.hpp"

// The oldest NCCL whose interface Muster uses; dependencies.cmake requires it too.
static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0), "Muster needs NCCL 2.23 or later");

namespace muster::detail {

/// NCCL_WIN_COLL_SYMMETRIC of NCCL 2.27 and later: all ranks pass the same offset into a window.
inline constexpr int nccl_symmetric_window = 1;

/// The functions of NCCL that the runtime calls.
struct NcclLibrary {
  /// @throws Error(ErrorCode::device), also for a library older than 2.23.
  NcclLibrary();

  /// libnccl.so.2, or the library that MUSTER_NCCL_LIBRARY names.
  SharedObject object{"MUSTER_NCCL_LIBRARY", "libnccl.so.2", "is NCCL installed on this node?"};
  decltype(::ncclGetVersion)* get_version = object.find("ncclGetVersion");
  decltype(::ncclGetErrorString)* get_error_string = object.find("ncclGetErrorString");
  /// "2.28.9". Older libraries are refused before functions that they lack are looked up.
  std::string version = read_version();
  decltype(::ncclGetLastError)* get_last_error = object.find("ncclGetLastError");
  decltype(::ncclGetUniqueId)* get_unique_id = object.find("ncclGetUniqueId");
  decltype(::ncclCommInitRankConfig)* comm_init_rank_config = object.find("ncclCommInitRankConfig");
  decltype(::ncclCommInitRankScalable)* comm_init_rank_scalable = object.find("ncclCommInitRankScalable");
  decltype(::ncclCommSplit)* comm_split = object.find("ncclCommSplit");
  decltype(::ncclCommGetAsyncError)* comm_get_async_error = object.find("ncclCommGetAsyncError");
  decltype(::ncclCommFinalize)* comm_finalize = object.find("ncclCommFinalize");
  decltype(::ncclCommDestroy)* comm_destroy = object.find("ncclCommDestroy");
  decltype(::ncclCommAbort)* comm_abort = object.find("ncclCommAbort");
  decltype(::ncclAllReduce)* all_reduce = object.find("ncclAllReduce");
  decltype(::ncclReduce)* reduce = object.find("ncclReduce");
  decltype(::ncclBroadcast)* broadcast = object.find("ncclBroadcast");
  decltype(::ncclAllGather)* all_gather = object.find("ncclAllGather");
  decltype(::ncclReduceScatter)* reduce_scatter = object.find("ncclReduceScatter");
  decltype(::ncclRedOpCreatePreMulSum)* create_premul_sum = object.find("ncclRedOpCreatePreMulSum");
  decltype(::ncclRedOpDestroy)* destroy_op = object.find("ncclRedOpDestroy");
  decltype(::ncclSend)* send = object.find("ncclSend");
  decltype(::ncclRecv)* recv = object.find("ncclRecv");
  decltype(::ncclGroupStart)* group_start = object.find("ncclGroupStart");
  decltype(::ncclGroupEnd)* group_end = object.find("ncclGroupEnd");
  // Null if the library lacks them.
  decltype(::ncclMemAlloc)* mem_alloc = object.find_optional("ncclMemAlloc");
  decltype(::ncclMemFree)* mem_free = object.find_optional("ncclMemFree");
  decltype(::ncclCommRegister)* comm_register = object.find_optional("ncclCommRegister");
  decltype(::ncclCommDeregister)* comm_deregister = object.find_optional("ncclCommDeregister");
  /// ncclCommWindowRegister and ncclCommWindowDeregister, with void* for ncclWindow_t; null before NCCL 2.27.
  ncclResult_t (*window_register)(ncclComm_t, void* memory, std::size_t bytes, void** window,
                                  int flags) = object.find_optional("ncclCommWindowRegister");
  ncclResult_t (*window_deregister)(ncclComm_t,
                                    void* window) = object.find_optional("ncclCommWindowDeregister");

  /// NCCL's text for a result, with the last error detail that it recorded for `comm` (null: for no
  /// communicator).
  std::string reason(ncclResult_t result, ncclComm_t comm) const;

 private:
  std::string read_version() const;
};

}  // namespace muster::detail
