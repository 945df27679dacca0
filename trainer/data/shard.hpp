// SPDX-License-Identifier: Apache-2.0
// Token shards as llm.c and modded-nanogpt write them (dev/data/data_common.py of karpathy/llm.c): a header
// of 256 int32 (magic number, version, number of tokens, then unused), then the tokens, all little-endian. A
// vocabulary of up to 65,536 tokens, as GPT-2's, has uint16 tokens, and a larger one, as Llama 3's, uint32.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "compute/token.hpp"

namespace muster::data {

inline constexpr std::int32_t shard_magic = 20240520, shard_version = 1;
inline constexpr std::int32_t wide_shard_magic = 20240801, wide_shard_version = 7;
inline constexpr std::uint64_t shard_header_bytes = 1024;
/// What the name of a shard ends in that is not complete.
inline constexpr const char* partial_shard_ending = ".partial";
/// The largest vocabulary of which a shard's tokens have two bytes.
inline constexpr int most_two_byte_tokens = 1 << 16;

struct ShardTokens {
  std::uint64_t count = 0;
  int bytes_per_token = 2;
};

/// Checks a shard's header, and that the number of tokens in it matches the size exactly. `content`: the
/// whole file; `path` is for the message.
/// @throws muster::Error(ErrorCode::usage)
ShardTokens tokens_in_shard(std::span<const std::uint8_t> content, const std::filesystem::path& path);

/// Writes a shard atomically. All tokens are below `vocabulary`, which decides their width.
/// @throws muster::Error: usage (more tokens than the header can count), system.
void write_shard(const std::filesystem::path& path, std::span<const compute::Token> tokens,
                 int vocabulary = most_two_byte_tokens);

}  // namespace muster::data
