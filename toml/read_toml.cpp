// SPDX-License-Identifier: Apache-2.0
#include "toml/read_toml.hpp"

#include <algorithm>

namespace muster {
namespace {

// TOML has no such characters, and toml++ 3.3 takes some of them for impossible: it ends the process.
bool is_odd(unsigned char c) { return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f; }

}  // namespace

toml::table read_toml(const std::string& text) {
  if (std::any_of(text.begin(), text.end(), is_odd))
    throw NotToml(0, "has control characters; not a text file");
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw NotToml(error.source().begin.line, std::string(error.description()));
  }
}

}  // namespace muster
