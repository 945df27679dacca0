// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster {

/// With ASCII's capital letters as small ones, whatever the locale.
inline std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace muster
