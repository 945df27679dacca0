// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace muster {

/// A text that is no TOML: what is wrong, and in which line (counted from 1; 0: not in a line of its own).
class NotToml : public std::runtime_error {
 public:
  NotToml(std::uint32_t line, const std::string& what) : std::runtime_error(what), line_(line) {}
  std::uint32_t line() const noexcept { return line_; }

 private:
  std::uint32_t line_;
};

}  // namespace muster

// toml++ does not foresee every file: where it would end the process, or with NDEBUG go on with what it takes
// for impossible, the file is refused.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expression) ((expression) ? void() : throw muster::NotToml(0, "is not TOML"))
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored \
    "-Wterminate"  // in its functions that throw nothing: there the process ends as before
#endif
#include <toml++/toml.h>
#pragma GCC diagnostic pop
#pragma pop_macro("NDEBUG")

namespace muster {

/// The document; its nodes have their lines.
/// @throws NotToml also for control characters, which TOML has not, and for what is nested deeper than any
/// file of ours: more than 32 brackets or 32 parts of a key.
toml::table read_toml(const std::string& text);

}  // namespace muster
