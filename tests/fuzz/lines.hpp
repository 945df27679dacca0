// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster::fuzz {

/// The lines of an input, padded with empty lines to at least `least`.
inline std::vector<std::string> split_lines(const std::uint8_t* data, std::size_t size,
                                            std::size_t least = 0) {
  std::vector<std::string> lines(1);
  for (std::size_t i = 0; i < size; ++i)
    if (data[i] == '\n')
      lines.emplace_back();
    else
      lines.back() += static_cast<char>(data[i]);
  if (lines.size() < least) lines.resize(least);
  return lines;
}

/// Lines of NAME=VALUE as an environment; the first line of a name counts. Values end at a null byte, as in a
/// real environment.
inline std::map<std::string, std::string> parse_environment(const std::vector<std::string>& lines) {
  std::map<std::string, std::string> variables;
  for (const auto& line : lines)
    if (auto const equals = line.find('='); equals != std::string::npos)
      variables.emplace(line.substr(0, equals), line.c_str() + equals + 1);
  return variables;
}

}  // namespace muster::fuzz
