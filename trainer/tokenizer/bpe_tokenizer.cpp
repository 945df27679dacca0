// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/bpe_tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <tuple>

#include "muster/error.hpp"
#include "tokenizer/utf8.hpp"

namespace muster::tokenizer {
namespace {

/// Tokens that end a text, of GPT-2, Llama 3, its chats, and Qwen's.
constexpr const char* end_names[] = {"<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|im_end|>", "</s>"};

constexpr std::size_t most_cached_pieces = 1 << 16, longest_cached_piece = 64;

}  // namespace

/// One text's way to tokens, with the pieces that were merged before.
class BpeTokenizer::Encoding {
 public:
  explicit Encoding(const BpeTokenizer& tokenizer) : of_(tokenizer) {}

  std::vector<TokenId> take() { return std::move(tokens_); }

  /// Tokens of the added kind `tokens` are found; `rest` gets what lies between them.
  template <typename Rest>
  void add(const AddedTokens& tokens, std::string_view text, const Rest& rest) {
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
      const AddedToken* found = find_at(tokens, text.substr(at));
      if (found == nullptr) {
        ++at;
        continue;
      }
      if (at > begin) rest(text.substr(begin, at - begin));
      tokens_.push_back(found->id);
      begin = at += found->content.size();
    }
    if (begin < text.size()) rest(text.substr(begin));
  }

  void add_text(std::string_view text) {
    if (of_.add_prefix_space_ && text.front() != ' ') {
      const std::string prefixed = ' ' + std::string(text);
      split(prefixed);
      cache_.clear();  // its keys are parts of the text
    } else {
      split(text);
    }
  }

 private:
  struct Symbol {
    TokenId token;
    int previous, next;  ///< neighbours; -1: none
  };
  struct Candidate {
    std::uint32_t rank;
    int at;
    TokenId left, right, result;
    /// For a heap whose first element is the lowest rank, and the leftmost of equals.
    bool operator<(const Candidate& other) const {
      return std::tie(other.rank, other.at) < std::tie(rank, at);
    }
  };
  struct Range {
    std::size_t begin, end;  ///< in tokens_
  };

  void split(std::string_view text) {
    if (of_.pattern_)
      of_.pattern_->split(text, [this](std::string_view piece) { add_piece(piece); });
    else
      add_piece(text);
  }

  void add_piece(std::string_view piece) {
    if (!of_.whole_.empty()) {
      if (const auto token = of_.whole_.find(std::string(piece)); token != of_.whole_.end()) {
        tokens_.push_back(token->second);
        return;
      }
    }
    const bool caches = piece.size() <= longest_cached_piece;
    if (caches) {
      if (const auto known = cache_.find(piece); known != cache_.end()) {
        for (std::size_t i = known->second.begin; i < known->second.end; ++i) tokens_.push_back(tokens_[i]);
        return;
      }
    }
    const std::size_t begin = tokens_.size();
    merge(piece);
    if (caches && cache_.size() < most_cached_pieces) cache_[piece] = {begin, tokens_.size()};
  }

  void push_candidate(int at) {
    const Symbol& left = symbols_[static_cast<std::size_t>(at)];
    if (left.next < 0) return;
    const TokenId right = symbols_[static_cast<std::size_t>(left.next)].token;
    const auto found = of_.merges_.find(left.token, right);
    if (found.rank == MergeTable::none) return;
    candidates_.push_back({found.rank, at, left.token, right, found.result});
    std::push_heap(candidates_.begin(), candidates_.end());
  }

  void merge(std::string_view piece) {
    symbols_.clear();
    candidates_.clear();
    if (piece.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw Error(ErrorCode::usage,
                  "the tokenizer does not divide the text, and takes at most 2 GiB of it at "
                  "once: pass shorter files");
    const int count = static_cast<int>(piece.size());
    for (int i = 0; i < count; ++i) {
      const auto byte = static_cast<unsigned char>(piece[static_cast<std::size_t>(i)]);
      const auto token = of_.byte_tokens_[byte];
      if (!token)
        throw Error(ErrorCode::usage, fmt::format("the tokenizer has no token for byte 0x{:02x}", byte));
      symbols_.push_back({*token, i - 1, i + 1 < count ? i + 1 : -1});
    }
    for (int i = 0; i < count; ++i) push_candidate(i);
    while (!candidates_.empty()) merge_next();
    for (int at = 0; at >= 0; at = symbols_[static_cast<std::size_t>(at)].next)
      tokens_.push_back(symbols_[static_cast<std::size_t>(at)].token);
  }

  void merge_next() {
    std::pop_heap(candidates_.begin(), candidates_.end());
    const Candidate next = candidates_.back();
    candidates_.pop_back();
    Symbol& left = symbols_[static_cast<std::size_t>(next.at)];
    // A neighbour may have been merged since, and merged symbols are left behind as `gone`.
    if (left.token != next.left || left.next < 0) return;
    Symbol& right = symbols_[static_cast<std::size_t>(left.next)];
    if (right.token != next.right) return;
    left.token = next.result;
    right.token = gone;
    left.next = right.next;
    if (right.next >= 0) symbols_[static_cast<std::size_t>(right.next)].previous = next.at;
    push_candidate(next.at);
    if (left.previous >= 0) push_candidate(left.previous);
  }

  static constexpr TokenId gone = ~TokenId{0};

  const BpeTokenizer& of_;
  std::vector<TokenId> tokens_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> candidates_;
  std::unordered_map<std::string_view, Range> cache_;
};

BpeTokenizer::BpeTokenizer(const TokenizerFile& file)
    : merges_(file.merges),
      add_prefix_space_(file.add_prefix_space),
      can_cut_at_lines_(!file.add_prefix_space) {
  if (file.splits)
    pattern_.emplace(file.expression);
  else
    can_cut_at_lines_ = false;
  TokenId largest = 0;
  for (const auto& [id, bytes] : file.vocabulary) largest = std::max(largest, id);
  for (const AddedToken& token : file.added) largest = std::max(largest, token.id);
  for (const Merge& merge : file.merges) largest = std::max({largest, merge.left, merge.right, merge.result});
  bytes_.resize(std::size_t{largest} + 1);
  for (const auto& [id, bytes] : file.vocabulary) {
    bytes_[id] = bytes;
    if (bytes.size() == 1) byte_tokens_[static_cast<unsigned char>(bytes[0])] = id;
    if (file.ignore_merges) whole_[bytes] = id;
  }
  for (const AddedToken& token : file.added) {
    bytes_[token.id] = token.content;
    auto& same = (token.normalized ? normalized_ : raw_)[static_cast<unsigned char>(token.content[0])];
    same.push_back(token);
    std::stable_sort(same.begin(), same.end(), [](const AddedToken& a, const AddedToken& b) {
      return a.content.size() > b.content.size();
    });
    if (token.content.find('\n') != token.content.npos) can_cut_at_lines_ = false;
    if (std::find(std::begin(end_names), std::end(end_names), token.content) != std::end(end_names))
      ends_.push_back(token.id);
  }
}

const AddedToken* BpeTokenizer::find_at(const AddedTokens& tokens, std::string_view text) {
  for (const AddedToken& token : tokens[static_cast<unsigned char>(text[0])]) {
    if (text.starts_with(token.content)) return &token;
  }
  return nullptr;
}

std::vector<TokenId> BpeTokenizer::encode(std::string_view text) const {
  if (const auto invalid = find_invalid_utf8(text))
    throw Error(ErrorCode::usage, fmt::format("byte {} of the text is not UTF-8", *invalid));
  Encoding encoding(*this);
  encoding.add(raw_, text, [&](std::string_view outside) {
    encoding.add(normalized_, outside, [&](std::string_view plain) { encoding.add_text(plain); });
  });
  return encoding.take();
}

bool BpeTokenizer::ends_text(TokenId token) const {
  return std::find(ends_.begin(), ends_.end(), token) != ends_.end();
}

std::optional<TokenId> BpeTokenizer::find_added(std::string_view content) const {
  for (const AddedTokens* tokens : {&raw_, &normalized_}) {
    for (const auto& same : *tokens) {
      for (const AddedToken& token : same) {
        if (token.content == content) return token.id;
      }
    }
  }
  return std::nullopt;
}

}  // namespace muster::tokenizer
