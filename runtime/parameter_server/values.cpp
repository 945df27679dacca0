// SPDX-License-Identifier: Apache-2.0
#include "parameter_server/values.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "muster/types.hpp"

namespace muster::parameter_server {

// Muster runs on little-endian hosts, and values travel as they lie in memory.
static_assert(std::endian::native == std::endian::little);

protocol::Blob encode_values(std::span<const float> values, bool as_bfloat16) {
  protocol::Blob blob(values.size() * (as_bfloat16 ? sizeof(bfloat16) : sizeof(float)));
  if (!as_bfloat16) {
    if (!values.empty()) std::memcpy(blob.data(), values.data(), blob.size());
    return blob;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    bfloat16 const rounded(values[i]);
    std::memcpy(blob.data() + i * sizeof rounded, &rounded, sizeof rounded);
  }
  return blob;
}

void decode_values(const protocol::Blob& blob, bool is_bfloat16, std::span<float> values) {
  auto const width = is_bfloat16 ? sizeof(bfloat16) : sizeof(float);
  if (blob.size() != values.size() * width)
    throw Error(ErrorCode::system,
                fmt::format("{} bytes for {} values of {} bytes", blob.size(), values.size(), width));
  if (!is_bfloat16) {
    if (!values.empty()) std::memcpy(values.data(), blob.data(), blob.size());
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    bfloat16 rounded;
    std::memcpy(&rounded, blob.data() + i * sizeof rounded, sizeof rounded);
    values[i] = static_cast<float>(rounded);
  }
}

}  // namespace muster::parameter_server
