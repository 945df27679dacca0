// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <exception>
#include <string>

#include "text/printable.hpp"

namespace muster::fuzz {

/// Aborts unless an error's text is one line that no part of the input can make do something to a terminal.
inline void check_printable(const std::exception& error) {
  const std::string text = error.what();
  if (text.empty() || printable(text) != text) std::abort();
}

}  // namespace muster::fuzz
