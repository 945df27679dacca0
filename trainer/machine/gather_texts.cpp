// SPDX-License-Identifier: Apache-2.0
#include "machine/gather_texts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <numeric>
#include <span>

#include "text/split.hpp"

namespace muster {

std::vector<std::string> gather_texts(Communicator& world, const std::string& mine) {
  const std::uint64_t length = mine.size();
  std::vector<std::uint64_t> lengths(static_cast<std::size_t>(world.size()));
  world.all_gather(std::span<const std::uint64_t>(&length, 1), std::span(lengths));
  const std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  std::vector<std::uint8_t> all(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(mine.data());
  world.all_gather_v(std::span<const std::uint8_t>(bytes, mine.size()), std::span(all), counts);
  std::vector<std::string> texts;
  auto at = all.begin();
  for (const std::size_t count : counts) {
    const auto end = at + static_cast<std::ptrdiff_t>(count);
    texts.emplace_back(at, end);
    at = end;
  }
  return texts;
}

std::vector<std::vector<std::string>> gather_lines(Communicator& world,
                                                   const std::vector<std::string>& mine) {
  std::vector<std::vector<std::string>> all;
  for (const std::string& text : gather_texts(world, fmt::format("{}", fmt::join(mine, "\n")))) {
    std::vector<std::string>& lines = all.emplace_back();
    for (const std::string_view line : split(text, '\n')) {
      if (!line.empty()) lines.emplace_back(line);
    }
  }
  return all;
}

}  // namespace muster
