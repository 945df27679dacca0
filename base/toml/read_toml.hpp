// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace muster {

/// A text is not valid TOML: what is wrong, and in which line (counted from 1; 0: in no particular line).
class TomlError : public std::runtime_error {
 public:
  TomlError(std::uint32_t line, const std::string& what) : std::runtime_error(what), line_(line) {}
  std::uint32_t line() const noexcept { return line_; }

 private:
  std::uint32_t line_;
};

}  // namespace muster

// Some files violate toml++'s assertions. It would then abort the process, or with NDEBUG continue in an
// impossible state. Such a file is refused instead.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expression) ((expression) ? void() : throw muster::TomlError(0, "is not TOML"))
#pragma GCC diagnostic push
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wterminate"  // in noexcept functions the process still ends
#endif
#include <toml++/toml.h>
#pragma GCC diagnostic pop
#pragma pop_macro("NDEBUG")

namespace muster {

/// Parses a document; its nodes know their lines.
/// @throws TomlError also for control characters, which TOML does not allow, and for deep nesting: more than
/// 32 brackets or 32 parts of a key.
toml::table read_toml(const std::string& text);

}  // namespace muster
