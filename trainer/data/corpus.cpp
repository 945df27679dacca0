// SPDX-License-Identifier: Apache-2.0
#include "data/corpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "compute/token.hpp"
#include "data/files.hpp"
#include "data/shard.hpp"
#include "file/regular_file.hpp"
#include "files/hash.hpp"
#include "muster/error.hpp"
#include "text/plural.hpp"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_corpus(const std::string& where, const std::string& why) {
  throw Error(ErrorCode::usage, fmt::format("--data {}: {}", where, why));
}

bool is_shard(const fs::path& path) { return path.extension() == ".bin"; }

/// Of a run of `muster-train tokenize` that has not ended, or was killed.
bool is_partial_shard(const fs::path& path) {
  return path.filename().string().find(std::string(".bin") + partial_shard_ending) != std::string::npos;
}

bool is_for_validation(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.find("_val_") != std::string::npos || name.find("_val.") != std::string::npos;
}

}  // namespace

TokenSequence Corpus::read_files(const std::string& where, bool skip_validation, TokenSequence& held_out) {
  const auto files = find_data_files(where);
  has_shards_ =
      std::any_of(files.begin(), files.end(), [](const auto& file) { return is_shard(file.second); });
  std::vector<std::shared_ptr<const MappedFile>> used;
  for (const auto& [real, path] : files) {
    if (is_partial_shard(path)) {
      refuse_corpus(where,
                    fmt::format("{} is incomplete: remove it and make the shards again", path.string()));
    }
    if (has_shards_ && (!is_shard(path) || (skip_validation && is_for_validation(path)))) continue;
    used.push_back(std::make_shared<const MappedFile>(path));
    bytes_ += used.back()->bytes().size();
  }
  file_count_ = used.size();
  TokenSequence training;
  for (const auto& file : used) {
    const fs::path& path = file->path();
    hash_ = file->fingerprint(hash_, is_small() ? max_checked_bytes : 0);
    if (!has_shards_) {
      training.append(file, 0, file->bytes().size(), 1);
      continue;
    }
    read_tokenizer_file(path);
    TokenSequence& to = is_for_validation(path) ? held_out : training;
    const ShardTokens tokens = tokens_in_shard(file->bytes(), path);
    to.append(file, shard_header_bytes, tokens.count, tokens.bytes_per_token);
  }
  return training;
}

void Corpus::read_tokenizer_file(const fs::path& shard) {
  const fs::path path = shard.parent_path() / "tokenizer.json";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  const auto file = read_regular_file(path.string(), compute::max_tokenizer_bytes);
  if (!file)
    throw Error(ErrorCode::usage, fmt::format("cannot read {}, or it is longer than 256 MiB", path.string()));
  if (tokenizer_file_.empty()) tokenizer_file_ = file->text;
  if (tokenizer_file_ != file->text) {
    throw Error(ErrorCode::usage, fmt::format("{} differs from the tokenizer of other shards: shards of one "
                                              "run need one tokenizer",
                                              path.string()));
  }
}

Corpus Corpus::read_whole(const std::string& where) {
  Corpus corpus;
  TokenSequence validation;
  corpus.training_ = corpus.read_files(where, false, validation);
  if (corpus.training_.empty()) std::swap(corpus.training_, validation);
  if (!validation.empty()) {
    refuse_corpus(where, "some shards are for validation (_val_) and some are not: name those of one kind");
  }
  if (corpus.training_.empty()) refuse_corpus(where, "it is empty");
  return corpus;
}

Corpus Corpus::read(const std::string& where, double validation_fraction, std::uint64_t max_held_out) {
  Corpus corpus;
  TokenSequence held_out;
  TokenSequence training = corpus.read_files(where, validation_fraction == 0, held_out);
  if (held_out.empty()) {
    corpus.split_off_validation(training, validation_fraction, where);
  } else {
    corpus.use_validation_shards(std::move(training), std::move(held_out), where);
  }
  const std::uint64_t training_tokens = corpus.training_.size();
  corpus.hash_ = hash_bytes(&training_tokens, sizeof training_tokens, corpus.hash_);
  if (max_held_out > 0 && corpus.held_out_size_ > max_held_out) {
    corpus.held_out_size_ = max_held_out;
    corpus.held_out_ = corpus.held_out_.part(0, max_held_out + 1);
  }
  return corpus;
}

void Corpus::use_validation_shards(TokenSequence training, TokenSequence held_out, const std::string& where) {
  if (training.empty()) refuse_corpus(where, "all shards are for validation (_val_): name some to train on");
  if (held_out.size() < 2) refuse_corpus(where, "its validation shards have one token: two are needed");
  has_validation_shards_ = true;
  held_out_size_ = held_out.size() - 1;
  training_ = std::move(training);
  held_out_ = std::move(held_out);
}

void Corpus::split_off_validation(const TokenSequence& all, double validation_fraction,
                                  const std::string& where) {
  if (all.empty()) refuse_corpus(where, "it is empty");
  held_out_size_ = static_cast<std::uint64_t>(static_cast<double>(all.size()) * validation_fraction);
  if (validation_fraction > 0 && held_out_size_ == 0) {
    refuse_corpus(where,
                  fmt::format("it has only {}, too few to hold out {:g} of them",
                              plural(static_cast<std::int64_t>(all.size()), has_shards_ ? "token" : "byte"),
                              validation_fraction));
  }
  const std::uint64_t training_size = all.size() - held_out_size_;
  training_ = all.part(0, training_size);
  if (held_out_size_ > 0) held_out_ = all.part(training_size - 1, all.size());
}

}  // namespace muster::data
