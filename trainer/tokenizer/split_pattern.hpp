// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace muster::tokenizer {

/// A regular expression that cuts a text into the pieces within which BPE merges. Only known expressions are
/// accepted: for these, PCRE2 finds what Oniguruma finds in Hugging Face's tokenizers. Thread-safe.
class SplitPattern {
 public:
  /// The expression of the pre-tokenizer ByteLevel, which is GPT-2's.
  static const std::string gpt2;
  /// The one of Llama 3, in a pre-tokenizer of type Split.
  static const std::string llama3;

  /// `expression`: as in a tokenizer.json.
  /// @throws std::runtime_error for an unknown expression, in one line.
  explicit SplitPattern(const std::string& expression);

  /// Calls `piece` with the matches and with what lies between them, in order; together they are the text,
  /// which must be valid UTF-8.
  /// @throws std::runtime_error when PCRE2 runs out of memory.
  void split(std::string_view text, const std::function<void(std::string_view)>& piece) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace muster::tokenizer
