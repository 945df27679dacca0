// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "muster/types.hpp"

namespace muster::detail {

/// A premul_sum's factor as an element of `type`, a type of floats.
inline std::array<std::byte, sizeof(double)> premul_scalar(double factor, DataType type) {
  std::array<std::byte, sizeof(double)> bytes{};
  auto const put = [&](auto element) { std::memcpy(bytes.data(), &element, sizeof element); };
  auto const single = static_cast<float>(factor);
  if (type == DataType::float64) put(factor);
  if (type == DataType::float32) put(single);
  if (type == DataType::bfloat16) put(bfloat16(single));
  if (type == DataType::float16) put(half(single));
  return bytes;
}

}  // namespace muster::detail
