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
  refuse_other_shards();
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

ShardWriter::~ShardWriter() {
  if (finished_) return;
  std::error_code ignored;
  for (std::size_t shard = 0; shard < count_; ++shard) {
    fs::remove(partial_path_of(shard), ignored);
    fs::remove(path_of(shard), ignored);
  }
}

/// Shards of another run would be read together with these.
void ShardWriter::refuse_other_shards() const {
  const std::string begin = fmt::format("tokens_{}_", split_);
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    if (!entry.path().filename().string().starts_with(begin)) continue;
    throw Error(ErrorCode::usage, fmt::format("{} exists: remove {}* or name another --output",
                                              entry.path().string(), (folder_ / begin).string()));
  }
  if (error)
    throw Error(ErrorCode::system, fmt::format("cannot read {}: {}", folder_.string(), error.message()));
}

fs::path ShardWriter::path_of(std::size_t shard) const {
  return folder_ / fmt::format("tokens_{}_{:06}.bin", split_, shard);
}

fs::path ShardWriter::partial_path_of(std::size_t shard) const {
  return path_of(shard).string() + data::partial_shard_ending;
}

void ShardWriter::write() {
  const std::size_t count = std::min(pending_.size(), tokens_in_shard_);
  data::write_shard(partial_path_of(count_), std::span<const TokenId>(pending_.data(), count), vocabulary_);
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
  for (std::size_t shard = 0; shard < count_; ++shard) {
    std::error_code error;
    fs::rename(partial_path_of(shard), path_of(shard), error);
    if (error) {
      throw Error(ErrorCode::system,
                  fmt::format("cannot rename {}: {}", partial_path_of(shard).string(), error.message()));
    }
  }
  finished_ = true;
}

}  // namespace muster::tokenizer
