// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/shard_writer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "data/shard.hpp"
#include "file/regular_file.hpp"
#include "files/output_file.hpp"
#include "muster/error.hpp"

namespace muster::tokenizer {

namespace fs = std::filesystem;

ShardWriter::ShardWriter(fs::path folder, const std::string& split, const std::string& tokenizer,
                         TokenId vocabulary, std::size_t tokens_in_shard)
    : folder_(std::move(folder)),
      split_(split),
      vocabulary_(static_cast<int>(vocabulary)),
      tokens_in_shard_(tokens_in_shard) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error)
    throw Error(ErrorCode::system, fmt::format("cannot create {}: {}", folder_.string(), error.message()));
  if (fs::exists(fs::symlink_status(path_of(0), error))) {
    throw Error(ErrorCode::usage,
                fmt::format("{} exists: remove it or name another --output", path_of(0).string()));
  }
  const fs::path copy = folder_ / "tokenizer.json";
  if (fs::exists(fs::symlink_status(copy, error))) {
    const auto present = read_regular_file(copy.string(), tokenizer.size());
    if (present && present->text == tokenizer) return;
    throw Error(ErrorCode::usage,
                fmt::format("{} is another tokenizer: name another --output", copy.string()));
  }
  OutputFile file(copy);
  file.write(tokenizer);
  file.commit();
}

fs::path ShardWriter::path_of(std::size_t shard) const {
  return folder_ / fmt::format("tokens_{}_{:06}.bin", split_, shard);
}

void ShardWriter::write() {
  const std::size_t count = std::min(pending_.size(), tokens_in_shard_);
  data::write_shard(path_of(count_), std::span<const TokenId>(pending_.data(), count), vocabulary_);
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(count));
  ++count_;
}

void ShardWriter::add(std::span<const TokenId> tokens) {
  pending_.insert(pending_.end(), tokens.begin(), tokens.end());
  tokens_ += tokens.size();
  while (pending_.size() >= tokens_in_shard_) write();
}

void ShardWriter::finish() {
  if (!pending_.empty()) write();
}

}  // namespace muster::tokenizer
