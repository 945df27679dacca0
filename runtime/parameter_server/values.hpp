// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "protocol/message.hpp"

namespace muster::parameter_server {

/// Values as they are sent.
protocol::Blob encode_values(std::span<const float> values, bool as_bfloat16);
/// @throws Error(ErrorCode::system) unless the blob has as many values as `values`.
void decode_values(const protocol::Blob& blob, bool is_bfloat16, std::span<float> values);

}  // namespace muster::parameter_server
