// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl/nccl_library.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::detail {

NcclLibrary::NcclLibrary()
    : object("MUSTER_NCCL_LIBRARY", "libnccl.so.2", "is NCCL installed on this node?") {
  object.find(get_version, "ncclGetVersion");
  object.find(get_error_string, "ncclGetErrorString");
  int code = 0;
  ncclResult_t const result = get_version(&code);
  if (result != ncclSuccess)
    throw Error(ErrorCode::device,
                fmt::format("{} did not report its version: {}", object.file(), get_error_string(result)));
  version = fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
  if (code < NCCL_VERSION(2, 23, 0)) {
    throw Error(ErrorCode::device,
                fmt::format("{} is NCCL {}; 2.23 or later is needed", object.file(), version));
  }
  object.find(get_last_error, "ncclGetLastError");
  object.find(get_unique_id, "ncclGetUniqueId");
  object.find(comm_init_rank_config, "ncclCommInitRankConfig");
  object.find(comm_init_rank_scalable, "ncclCommInitRankScalable");
  object.find(comm_split, "ncclCommSplit");
  object.find_optional(comm_shrink, "ncclCommShrink");
  object.find(comm_get_async_error, "ncclCommGetAsyncError");
  object.find(comm_finalize, "ncclCommFinalize");
  object.find(comm_destroy, "ncclCommDestroy");
  object.find(comm_abort, "ncclCommAbort");
  object.find(all_reduce, "ncclAllReduce");
  object.find(reduce, "ncclReduce");
  object.find(broadcast, "ncclBroadcast");
  object.find(all_gather, "ncclAllGather");
  object.find(reduce_scatter, "ncclReduceScatter");
  object.find(send, "ncclSend");
  object.find(recv, "ncclRecv");
  object.find(group_start, "ncclGroupStart");
  object.find(group_end, "ncclGroupEnd");
  object.find_optional(mem_alloc, "ncclMemAlloc");
  object.find_optional(mem_free, "ncclMemFree");
  object.find_optional(comm_register, "ncclCommRegister");
  object.find_optional(comm_deregister, "ncclCommDeregister");
  if (mem_free == nullptr) mem_alloc = nullptr;
  if (comm_deregister == nullptr) comm_register = nullptr;
}

std::string NcclLibrary::reason(ncclResult_t result, ncclComm_t comm) const {
  const char* const last = get_last_error(comm);
  std::string detail = last != nullptr ? last : "";
  // NCCL's text may have several lines.
  std::replace(detail.begin(), detail.end(), '\n', ' ');
  while (!detail.empty() && detail.back() == ' ') detail.pop_back();
  return detail.empty() ? get_error_string(result) : fmt::format("{} ({})", get_error_string(result), detail);
}

}  // namespace muster::detail
