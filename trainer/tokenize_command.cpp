// SPDX-License-Identifier: Apache-2.0
#include "tokenize_command.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>

#include "compute/token.hpp"
#include "config/option_validators.hpp"
#include "config/parse_command.hpp"
#include "data/mapped_file.hpp"
#include "file/regular_file.hpp"
#include "muster/error.hpp"
#include "text/plural.hpp"
#include "tokenizer/bpe_tokenizer.hpp"
#include "tokenizer/shard_writer.hpp"
#include "tokenizer/tokenize_text.hpp"

namespace muster {
namespace {

using tokenizer::BpeTokenizer;
using tokenizer::TokenId;

/// Tokens that begin a document in shards of llm.c: GPT-2's and Llama 3's.
constexpr const char* document_tokens[] = {"<|endoftext|>", "<|begin_of_text|>"};

struct TokenizeOptions {
  std::string tokenizer, output = "shards", split = "train", document_token;
  std::vector<std::string> texts;
  std::int64_t shard_tokens = 100'000'000;  ///< llm.c's scripts write shards of this size
  int threads = 0;
};

std::string read_tokenizer(const std::string& path) {
  auto file = read_regular_file(path, compute::max_tokenizer_bytes);
  if (!file)
    throw Error(ErrorCode::usage,
                fmt::format("--tokenizer {} cannot be read, or is longer than 256 MiB", path));
  return std::move(file->text);
}

BpeTokenizer make_tokenizer(const std::string& text, const std::string& path) {
  try {
    return BpeTokenizer(tokenizer::parse_tokenizer_file(text));
  } catch (const std::runtime_error& reason) {
    throw Error(ErrorCode::usage, fmt::format("--tokenizer {} cannot be used: {}", path, reason.what()));
  }
}

std::optional<TokenId> choose_document_token(const TokenizeOptions& o, const BpeTokenizer& tokens) {
  if (o.document_token == "none") return std::nullopt;
  if (!o.document_token.empty()) {
    const auto found = tokens.find_added(o.document_token);
    if (!found) {
      throw Error(ErrorCode::usage,
                  fmt::format("--document-token {}: {} has no such added token: pass another, or none",
                              o.document_token, o.tokenizer));
    }
    return found;
  }
  for (const char* name : document_tokens) {
    if (const auto found = tokens.find_added(name)) return found;
  }
  return std::nullopt;
}

void declare(CLI::App& app, TokenizeOptions& o) {
  app.add_option("TEXT", o.texts, "Files of UTF-8 text; each is one document")
      ->required()
      ->check(not_an_option());
  app.add_option("--tokenizer", o.tokenizer,
                 "A tokenizer.json of byte-level BPE, of GPT-2's or Llama 3's kind")
      ->required()
      ->check(not_an_option());
  app.add_option("--output", o.output, "Folder for the shards and a copy of the tokenizer; created")
      ->check(not_an_option())
      ->capture_default_str();
  app.add_option("--split", o.split, "train, or val for shards that training holds out")
      ->check(CLI::IsMember({"train", "val"}))
      ->capture_default_str();
  app.add_option("--document-token", o.document_token,
                 "Added token that is written before each document, or none; if not given, <|endoftext|> or "
                 "<|begin_of_text|>, if the tokenizer has one")
      ->check(not_an_option());
  app.add_option("--shard-tokens", o.shard_tokens, "Tokens in a shard; the last one has fewer")
      ->check(integer(std::int64_t{1}, std::int64_t{2'000'000'000}))
      ->capture_default_str();
  app.add_option("--threads", o.threads, "Threads; 0: OMP_NUM_THREADS, else all CPUs")
      ->check(integer(0, 4096))
      ->capture_default_str();
}

}  // namespace

int tokenize_command(int argc, const char* const* argv) {
  TokenizeOptions o;
  CLI::App app("Writes texts as token shards of llm.c, to train on.", "muster-train tokenize");
  declare(app, o);
  if (!parse_command(app, argc, argv)) return 0;
  if (o.threads > 0) omp_set_num_threads(o.threads);
  const std::string text = read_tokenizer(o.tokenizer);
  const BpeTokenizer tokens = make_tokenizer(text, o.tokenizer);
  const auto document_token = choose_document_token(o, tokens);
  tokenizer::ShardWriter shards(o.output, o.split, text, tokens.size(),
                                static_cast<std::size_t>(o.shard_tokens));
  const auto from = std::chrono::steady_clock::now();
  std::uint64_t bytes = 0;
  for (const std::string& path : o.texts) {
    const data::MappedFile file(path);
    bytes += file.bytes().size();
    if (document_token) shards.add(std::span(&*document_token, 1));
    tokenize_text(tokens, file, [&](std::span<const TokenId> part) { shards.add(part); });
  }
  shards.finish();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - from;
  fmt::print("{}: {} of {} in {}, {} bytes in {:.2f} s ({:.1f} MB/s)\n", o.output,
             plural(static_cast<std::int64_t>(shards.tokens()), "token"),
             plural(static_cast<std::int64_t>(o.texts.size()), "document"),
             plural(static_cast<std::int64_t>(shards.count()), "shard"), bytes, took.count(),
             static_cast<double>(bytes) / 1e6 / took.count());
  fmt::print("train: muster-train --data {} --vocabulary {}\n", o.output, tokens.size());
  return 0;
}

}  // namespace muster
