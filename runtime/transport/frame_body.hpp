// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "protocol/message.hpp"

namespace muster::control {

/// A message as bytes: CBOR. With byte strings in it: a zero, four bytes of the CBOR's length, the CBOR, in
/// which each byte string is the four bytes of its length, and the byte strings in the CBOR's order. CBOR is
/// read byte by byte, which is slow for much data.
std::vector<std::uint8_t> write_frame_body(const protocol::Message& message);
/// @throws Error(ErrorCode::system) when the bytes are no message.
protocol::Message read_frame_body(std::span<const std::uint8_t> bytes);

}  // namespace muster::control
