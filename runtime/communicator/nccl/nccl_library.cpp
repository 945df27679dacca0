// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl/nccl_library.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::detail {

NcclLibrary::NcclLibrary() {
  if (mem_free == nullptr) mem_alloc = nullptr;
  if (comm_deregister == nullptr) comm_register = nullptr;
}

std::string NcclLibrary::read_version() const {
  int code = 0;
  ncclResult_t const result = get_version(&code);
  if (result != ncclSuccess)
    throw Error(ErrorCode::device,
                fmt::format("{} did not report its version: {}", object.file(), get_error_string(result)));
  auto text = fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
  if (code < NCCL_VERSION(2, 23, 0)) {
    throw Error(ErrorCode::device,
                fmt::format("{} is NCCL {}; 2.23 or later is needed", object.file(), text));
  }
  return text;
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
