// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace muster::tokenizer {

/// The position of the first byte that is not part of valid UTF-8 (RFC 3629, section 4); nothing if there is
/// none.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

}  // namespace muster::tokenizer
