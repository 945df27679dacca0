// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::cli::bench {

/// Parses "4", "64K", "1M", "2G" (powers of 1024, either case, also "1MiB" and "8B"). Empty for anything else
/// and for sizes that do not fit.
std::optional<std::size_t> parse_size(std::string_view text);

/// "4 B", "64 KiB", "1.5 MiB".
std::string format_size(std::size_t bytes);

/// `least`, then each `factor` (2 or more) times the one before, up to `most`.
std::vector<std::size_t> sizes_between(std::size_t least, std::size_t most, std::size_t factor);

}  // namespace muster::cli::bench
