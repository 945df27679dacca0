// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "protocol/message.hpp"

namespace muster::control {

/// A message as bytes: CBOR, or for a message with a byte string named "payload" a zero, four bytes of
/// length, the rest of the message in CBOR, and the payload as it is. CBOR is read byte by byte, which is
/// slow for much data.
std::vector<std::uint8_t> write_frame_body(const protocol::Message& message);
/// @throws Error(ErrorCode::system) when the bytes are no message.
protocol::Message read_frame_body(std::span<const std::uint8_t> bytes);

}  // namespace muster::control
