// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace muster::fuzz {

using Bytes = std::vector<std::uint8_t>;

/// One of several messages in a fuzzer's input: one byte for the sender, two for the length (little endian),
/// then the bytes.
struct Frame {
  std::uint8_t from = 0;
  std::span<const std::uint8_t> bytes;
};

inline std::vector<Frame> parse_frames(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t most = 32;
  std::vector<Frame> frames;
  while (size >= 3 && frames.size() < most) {
    std::size_t const wanted = data[1] | (static_cast<std::size_t>(data[2]) << 8);
    auto const length = std::min(wanted, size - 3);
    frames.push_back({data[0], {data + 3, length}});
    data += 3 + length;
    size -= 3 + length;
  }
  return frames;
}

inline void append_frame(Bytes& to, std::uint8_t from, const Bytes& bytes) {
  to.push_back(from);
  to.push_back(static_cast<std::uint8_t>(bytes.size()));
  to.push_back(static_cast<std::uint8_t>(bytes.size() >> 8));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace muster::fuzz
