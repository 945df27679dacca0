// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.hpp"

namespace muster::tokenizer {

/// Writes tokens as shards (data/shard.hpp) into a folder: tokens_train_000000.bin and so on, beside the
/// tokenizer.json that made them. Until finish() their names end in .partial, which data::Corpus refuses.
class ShardWriter {
 public:
  /// `split`: "train" or "val". `tokenizer`: the text of the tokenizer.json. Creates the folder.
  /// @throws muster::Error: usage (a shard of this split, or another tokenizer, is in the folder), system.
  ShardWriter(std::filesystem::path folder, const std::string& split, const std::string& tokenizer,
              TokenId vocabulary, std::size_t tokens_in_shard);
  /// Removes the shards unless they are finished.
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// @throws muster::Error(ErrorCode::system), as finish() does.
  void add(std::span<const TokenId> tokens);
  /// Writes the last shard and gives all of them their names.
  void finish();

  std::uint64_t tokens() const noexcept { return tokens_; }
  std::size_t count() const noexcept { return count_; }

 private:
  std::filesystem::path path_of(std::size_t shard) const;
  std::filesystem::path partial_path_of(std::size_t shard) const;
  void refuse_other_shards() const;
  void write();

  std::filesystem::path folder_;
  std::string split_;
  int vocabulary_;
  std::size_t tokens_in_shard_;
  std::vector<TokenId> pending_;
  std::uint64_t tokens_ = 0;
  std::size_t count_ = 0;
  bool finished_ = false;
};

}  // namespace muster::tokenizer
