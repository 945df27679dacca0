// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "catch.hpp"
#include "muster/error.hpp"

// How many of the errors are to be said, and that all have one text.
inline int speakers(const std::vector<std::optional<muster::Error>>& thrown) {
  int count = 0;
  std::string text;
  for (const auto& error : thrown) {
    if (!error) continue;
    // What rank 0 did last each knows from its own connection to it.
    std::string const what = error->what();
    auto const same = what.substr(0, what.find(", while "));
    if (text.empty()) text = same;
    CHECK(text == same);
    if (!error->reported_elsewhere()) ++count;
  }
  return count;
}
