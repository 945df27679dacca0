// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/token_sequence.hpp"

namespace muster::data {

/// The tokens of a text or of shards, split into training and held-out tokens.
class Corpus {
 public:
  /// Reads the files that find_data_files(where) finds. If a file's name ends with .bin, only such files are
  /// read, as shards (data/shard.hpp); otherwise all files are text, whose tokens are its bytes. Shards with
  /// "_val_" or "_val." in their names are held out whole. Without such shards, the last validation_fraction
  /// (0 to 0.9) of all tokens is held out. With a validation_fraction of 0 nothing is held out and validation
  /// shards are ignored. max_held_out: use only the first so many held-out tokens; 0: all.
  /// @throws muster::Error(ErrorCode::usage): as find_data_files(), an invalid shard, no tokens, no tokens
  /// on one side of the split, different tokenizers beside the shards, or a shard that is not complete.
  static Corpus read(const std::string& where, double validation_fraction, std::uint64_t max_held_out = 0);
  /// Like read(), but holds nothing out. Shards must all be for validation, or none.
  static Corpus read_whole(const std::string& where);

  std::uint64_t size() const noexcept { return training_.size() + held_out_size_; }
  std::size_t file_count() const noexcept { return file_count_; }
  /// Hash of sizes and contents (MappedFile::fingerprint(), whole if is_small()) and of the position where
  /// the held-out part begins.
  std::uint64_t hash() const noexcept { return hash_; }
  /// True when all files together have at most max_checked_bytes.
  bool is_small() const noexcept { return bytes_ <= max_checked_bytes; }
  bool has_shards() const noexcept { return has_shards_; }
  /// Whether such shards are held out.
  bool has_validation_shards() const noexcept { return has_validation_shards_; }
  /// The text of the tokenizer.json beside the shards, as `muster-train tokenize` writes it; empty: none.
  const std::string& tokenizer_file() const noexcept { return tokenizer_file_; }
  const TokenSequence& training() const noexcept { return training_; }
  std::uint64_t held_out_size() const noexcept { return held_out_size_; }
  /// The held-out tokens and the one before them, from which the first is predicted. For validation shards,
  /// that one is their own first token. Empty when nothing is held out.
  const TokenSequence& validation_sequence() const noexcept { return held_out_; }

 private:
  void use_validation_shards(TokenSequence training, TokenSequence held_out, const std::string& where);
  void split_off_validation(const TokenSequence& all, double validation_fraction, const std::string& where);

  /// Reads all files; validation shards to `held_out`, the others to the returned sequence.
  TokenSequence read_files(const std::string& where, bool skip_validation, TokenSequence& held_out);
  void read_tokenizer_file(const std::filesystem::path& shard);

  TokenSequence training_, held_out_;
  std::string tokenizer_file_;
  std::uint64_t held_out_size_ = 0, hash_ = 0, bytes_ = 0;
  std::size_t file_count_ = 0;
  bool has_shards_ = false, has_validation_shards_ = false;
};

}  // namespace muster::data
