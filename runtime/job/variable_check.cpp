// SPDX-License-Identifier: Apache-2.0
#include "job/variable_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "text/printable.hpp"

namespace muster::detail {
namespace {

struct WordVariable {
  const char* name;
  std::vector<std::string_view> words;
};

}  // namespace

std::optional<std::string> describe_wrong_variable(const bootstrap::GetEnv& get_env) {
  static const std::vector<WordVariable> variables{{"MUSTER_CHECK", {"calls", "off"}},
                                                   {"MUSTER_LOG", {"info", "debug"}},
                                                   {"MUSTER_PREFLIGHT", {"warn"}},
                                                   {"MUSTER_SHARED_MEMORY", {"off"}}};
  for (const auto& [name, words] : variables) {
    auto const value = get_env(name);
    if (!value.empty() && std::find(words.begin(), words.end(), value) == words.end())
      return fmt::format("{} is '{}': must be {}, or unset", name, printable(value),
                         fmt::join(words, " or "));
  }
  return std::nullopt;
}

}  // namespace muster::detail
