// SPDX-License-Identifier: Apache-2.0
// Token shards as llm.c and modded-nanogpt write them (dev/data/data_common.py of karpathy/llm.c): 256 int32,
// of which the first three are a magic number, the version 1 and the count of tokens, and then the tokens as
// uint16, all little-endian.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "compute/token.hpp"

namespace muster::data {

inline constexpr std::int32_t shard_magic = 20240520, shard_version = 1;
inline constexpr std::uint64_t shard_header_bytes = 1024;

/// Number of tokens in a shard's whole content, after checking that the header is one and that the count fits
/// the size exactly. `path` is for the message.
/// @throws muster::Error(ErrorCode::usage)
std::uint64_t tokens_in_shard(std::span<const std::uint8_t> content, const std::filesystem::path& path);

/// Writes a shard: whole or not at all.
/// @throws muster::Error: usage (more tokens than the header can count), system.
void write_shard(const std::filesystem::path& path, std::span<const compute::Token> tokens);

}  // namespace muster::data
