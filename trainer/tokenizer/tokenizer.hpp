// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace muster::tokenizer {

using TokenId = std::uint32_t;

/// How text becomes tokens, and tokens text. Thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The tokens of a text.
  /// @throws muster::Error(ErrorCode::usage) when the text is none for this tokenizer.
  virtual std::vector<TokenId> encode(std::string_view text) const = 0;
  /// The bytes of a token below size(); several tokens together may make one character.
  virtual std::string decode(TokenId token) const = 0;
  virtual TokenId size() const noexcept = 0;
  /// True for the token that ends a text, such as GPT-2's <|endoftext|>.
  virtual bool ends_text(TokenId token) const = 0;
};

/// The tokenizer of a checkpoint: `text` is TrainingState::tokenizer and not empty.
/// @throws muster::Error(ErrorCode::usage), with `where` in its text, when a tokenizer.json cannot be used.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& text, const std::string& where);

}  // namespace muster::tokenizer
