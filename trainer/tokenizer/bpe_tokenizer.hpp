// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/merge_table.hpp"
#include "tokenizer/split_pattern.hpp"
#include "tokenizer/tokenizer.hpp"
#include "tokenizer/tokenizer_file.hpp"

namespace muster::tokenizer {

/// Byte-level BPE (Sennrich et al., arXiv 1508.07909; on bytes: Radford et al. 2019) with the tokens that
/// Hugging Face's tokenizers package gives for the same tokenizer.json, without special tokens around the
/// text.
class BpeTokenizer final : public Tokenizer {
 public:
  /// @throws std::runtime_error with the reason, in one line.
  explicit BpeTokenizer(const TokenizerFile& file);

  /// @throws muster::Error(ErrorCode::usage) when the text is not UTF-8 or has a byte without a token.
  std::vector<TokenId> encode(std::string_view text) const override;
  std::string decode(TokenId token) const override { return bytes_[token]; }
  TokenId size() const noexcept override { return static_cast<TokenId>(bytes_.size()); }
  bool ends_text(TokenId token) const override;

  /// The added token with this content.
  std::optional<TokenId> find_added(std::string_view content) const;
  /// True when a text may be cut after any line break between two characters that are not white space, and
  /// the tokens of the parts are those of the whole.
  bool can_cut_at_lines() const noexcept { return can_cut_at_lines_; }

 private:
  class Encoding;
  /// Added tokens by their first byte, the longest first.
  using AddedTokens = std::array<std::vector<AddedToken>, 256>;
  static const AddedToken* find_at(const AddedTokens& tokens, std::string_view text);

  std::vector<std::string> bytes_;  ///< by token
  std::array<std::optional<TokenId>, 256> byte_tokens_;
  std::unordered_map<std::string, TokenId> whole_;  ///< tokens of the model, if it ignores merges
  MergeTable merges_;
  std::optional<SplitPattern> pattern_;
  AddedTokens raw_, normalized_;
  std::vector<TokenId> ends_;
  bool add_prefix_space_, can_cut_at_lines_;
};

}  // namespace muster::tokenizer
