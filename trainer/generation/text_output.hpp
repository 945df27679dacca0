// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace muster {

/// Writes generated text to standard output as it comes. On a terminal, bytes that are not printable
/// characters, line breaks or tabs become question marks, since a model may generate any bytes.
class TextOutput {
 public:
  explicit TextOutput(bool on_terminal) : on_terminal_(on_terminal) {}
  /// @throws muster::Error(ErrorCode::system) when it cannot be written, as finish() does.
  void write(std::string_view bytes);
  /// Writes what is left of an incomplete character, and on a terminal a line break after an unfinished line.
  void finish();

 private:
  /// Takes the complete characters of pending_.
  std::string take_printable(bool all);
  void put(const std::string& text);

  bool on_terminal_;
  std::string pending_;
  char last_ = '\n';
};

}  // namespace muster
