// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "data/token_sequence.hpp"

namespace muster::data {

/// The tokens of a text or of shards, cut into those to train on and those held out.
class Corpus {
 public:
  /// Reads what files_of(where) names. Where a file's name ends with .bin, those that end so are read as
  /// shards (data/shard.hpp) and the others are left out; otherwise all are text, whose tokens are its bytes.
  /// Shards with
  /// "_val_" or "_val." in their names are held out whole; where there is none, the last validation_fraction
  /// (0 to 0.9) of all tokens is. With a
  /// validation_fraction of 0 nothing is held out, and such shards are left out. Of what is held out the
  /// first most_held_out tokens are taken, or, when that is 0, all.
  /// @throws muster::Error(ErrorCode::usage): what files_of() throws, a shard that is none, no tokens, or
  /// nothing left on one side of the cut.
  static Corpus read(const std::string& where, double validation_fraction, std::uint64_t most_held_out = 0);

  std::uint64_t size() const noexcept { return training_.size() + held_out_size_; }
  std::size_t file_count() const noexcept { return file_count_; }
  /// Of sizes and contents (MappedFile::fingerprint()), and of where the held-out part begins.
  std::uint64_t hash() const noexcept { return hash_; }
  bool of_shards() const noexcept { return of_shards_; }
  const TokenSequence& training() const noexcept { return training_; }
  std::uint64_t held_out_size() const noexcept { return held_out_size_; }
  /// The held-out tokens and one before them, from which the first is predicted; with shards of their own,
  /// the first of these. Empty when nothing is held out.
  const TokenSequence& held_out_with_lead() const noexcept { return held_out_; }

 private:
  void take_apart(TokenSequence training, TokenSequence held_out, const std::string& where);
  void cut(const TokenSequence& all, double validation_fraction, const std::string& where);

  TokenSequence training_, held_out_;
  std::uint64_t held_out_size_ = 0, hash_ = 0;
  std::size_t file_count_ = 0;
  bool of_shards_ = false;
};

}  // namespace muster::data
