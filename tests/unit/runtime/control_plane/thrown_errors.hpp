// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "catch.hpp"
#include "muster/error.hpp"

using ThrownErrors = std::vector<std::optional<muster::Error>>;  // by rank; empty where a rank threw none

inline void check_no_errors(const ThrownErrors& thrown) {
  for (const auto& error : thrown) {
    INFO((error ? error->what() : ""));
    CHECK_FALSE(error);
  }
}

// Counts the errors that are to be printed, and checks that all have the same text.
inline int count_reporters(const ThrownErrors& thrown) {
  int count = 0;
  std::string text;
  for (const auto& error : thrown) {
    if (!error) continue;
    // Each rank learns rank 0's last call from its own connection, so that part may differ.
    std::string const what = error->what();
    auto const same = what.substr(0, what.find(", while "));
    if (text.empty()) text = same;
    CHECK(text == same);
    if (!error->reported_elsewhere()) ++count;
  }
  return count;
}
