// SPDX-License-Identifier: Apache-2.0
#include "bench/sizes.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "text/lower_case.hpp"

namespace muster::cli::bench {

std::optional<std::size_t> parse_size(std::string_view text) {
  std::size_t number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  std::string unit = lower_case({end, text.data() + text.size()});
  if (unit.ends_with("ib") && unit.size() == 3) unit.resize(1);
  unsigned shift = 0;
  if (unit == "k")
    shift = 10;
  else if (unit == "m")
    shift = 20;
  else if (unit == "g")
    shift = 30;
  else if (!unit.empty() && unit != "b")
    return std::nullopt;
  auto const size = number << shift;
  if (size >> shift != number) return std::nullopt;
  return size;
}

std::string format_size(std::size_t bytes) {
  constexpr std::array<const char*, 4> units{"B", "KiB", "MiB", "GiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return fmt::format("{:.4g} {}", value, units[unit]);
}

std::vector<std::size_t> sizes_between(std::size_t least, std::size_t most, std::size_t factor) {
  std::vector<std::size_t> sizes;
  for (std::size_t size = least; size > 0 && size <= most; size *= factor) {
    sizes.push_back(size);
    if (size > most / factor) break;
  }
  return sizes;
}

}  // namespace muster::cli::bench
