// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace muster {

/// Reads one CBOR value that fills `bytes`. Nesting deeper than `max_depth` is rejected before the value is
/// built.
/// @throws Error(ErrorCode::system) naming `what` was read.
nlohmann::json read_cbor(std::span<const std::uint8_t> bytes, const std::string& what, int max_depth = 4);

std::vector<std::uint8_t> write_cbor(const nlohmann::json& value);

}  // namespace muster
