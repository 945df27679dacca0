// SPDX-License-Identifier: Apache-2.0
// Token shards as llm.c and modded-nanogpt write them (dev/data/data_common.py of karpathy/llm.c): a header
// of 256 int32 (magic number, version 1, number of tokens, then unused), then the tokens as uint16, all
// little-endian.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "compute/token.hpp"

namespace muster::data {

inline constexpr std::int32_t shard_magic = 20240520, shard_version = 1;
/// llm.c's shards of Llama 3's tokens, which take four bytes.
inline constexpr std::int32_t wide_shard_magic = 20240801, wide_shard_version = 7;
inline constexpr std::uint64_t shard_header_bytes = 1024;

/// Number of tokens in a shard, after checking the header and that the number matches the size exactly.
/// `content`: the whole file; `path` is for the message.
/// @throws muster::Error(ErrorCode::usage)
std::uint64_t tokens_in_shard(std::span<const std::uint8_t> content, const std::filesystem::path& path);

/// Writes a shard atomically.
/// @throws muster::Error: usage (more tokens than the header can count), system.
void write_shard(const std::filesystem::path& path, std::span<const compute::Token> tokens);
/// Likewise, with tokens of four bytes, for vocabularies beyond compute::most_tokens_in_vocabulary.
void write_wide_shard(const std::filesystem::path& path, std::span<const std::uint32_t> tokens);

}  // namespace muster::data
