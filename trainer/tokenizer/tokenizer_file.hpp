// SPDX-License-Identifier: Apache-2.0
// The parts of Hugging Face's tokenizer.json that decide the tokens of byte-level BPE.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/tokenizer.hpp"

namespace muster::tokenizer {

/// A token that is found in the text itself, before it is split.
struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool normalized = false;  ///< found only where those that are not normalized were not found
  bool special = false;
};

struct Merge {
  TokenId left = 0, right = 0, result = 0;
};

struct TokenizerFile {
  bool splits = false;
  std::string expression;         ///< if it splits: SplitPattern's
  bool add_prefix_space = false;  ///< before each text that does not begin with one
  bool ignore_merges = false;     ///< a piece that is a token is taken as it is
  /// Token ids and the bytes that they stand for.
  std::vector<std::pair<TokenId, std::string>> vocabulary;
  std::vector<Merge> merges;  ///< the first ones are merged first
  std::vector<AddedToken> added;
};

/// Parses a tokenizer.json. What would change tokens and is not known is refused.
/// @throws std::runtime_error with the reason, in one line.
TokenizerFile parse_tokenizer_file(std::string_view text);

}  // namespace muster::tokenizer
