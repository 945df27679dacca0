// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace muster {

/// Reads one CBOR value that fills `bytes`. Bounded: nesting deeper than `max_depth` is refused before it is
/// built.
/// @throws Error(ErrorCode::system), saying `what` was read and why it was refused.
nlohmann::json read_cbor(std::span<const std::uint8_t> bytes, const std::string& what, int max_depth = 4);

std::vector<std::uint8_t> write_cbor(const nlohmann::json& value);

}  // namespace muster
