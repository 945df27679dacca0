// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tokenizer/tokenizer.hpp"

namespace muster::tokenizer {

/// Tokens are the bytes of a text.
class ByteTokenizer final : public Tokenizer {
 public:
  std::vector<TokenId> encode(std::string_view text) const override {
    std::vector<TokenId> tokens;
    tokens.reserve(text.size());
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  std::string decode(TokenId token) const override { return std::string(1, static_cast<char>(token)); }
  TokenId size() const noexcept override { return 256; }
  bool ends_text(TokenId) const override { return false; }
};

}  // namespace muster::tokenizer
