// SPDX-License-Identifier: Apache-2.0
#include "data/shard.hpp"

#include <fmt/format.h>

#include <limits>
#include <vector>

#include "files/output_file.hpp"
#include "muster/error.hpp"

namespace muster::data {
namespace {

constexpr std::size_t bytes_per_token = 2;

[[noreturn]] void refuse_shard(const std::filesystem::path& path, const std::string& why) {
  throw Error(ErrorCode::usage,
              fmt::format("{} is not a shard of tokens: {} (a text file's name must not end with .bin)",
                          path.string(), why));
}

std::int32_t read_int32(std::span<const std::uint8_t> content, std::size_t index) {
  std::uint32_t number = 0;
  for (std::size_t byte = 4; byte-- > 0;) number = number << 8 | content[4 * index + byte];
  return static_cast<std::int32_t>(number);
}

void append_little_endian(std::vector<std::uint8_t>& bytes, std::uint32_t number, std::size_t width) {
  for (std::size_t byte = 0; byte < width; ++byte)
    bytes.push_back(static_cast<std::uint8_t>(number >> (8 * byte)));
}

}  // namespace

std::uint64_t tokens_in_shard(std::span<const std::uint8_t> content, const std::filesystem::path& path) {
  if (content.size() < shard_header_bytes) {
    refuse_shard(path, fmt::format("it has {} bytes, fewer than the {} of a header", content.size(),
                                   shard_header_bytes));
  }
  if (const auto magic = read_int32(content, 0); magic != shard_magic) {
    if (magic == wide_shard_magic)
      refuse_shard(path, fmt::format("its tokens have four bytes, and models here have up to {} tokens",
                                     compute::most_tokens_in_vocabulary));
    refuse_shard(path, fmt::format("its number at byte 0 is {} and not {}", magic, shard_magic));
  }
  if (const auto version = read_int32(content, 1); version != shard_version)
    refuse_shard(path, fmt::format("its version at byte 4 is {} and not {}", version, shard_version));
  const std::int32_t count = read_int32(content, 2);
  const std::uint64_t bytes = content.size() - shard_header_bytes;
  if (count < 0 || static_cast<std::uint64_t>(count) * bytes_per_token != bytes) {
    refuse_shard(
        path, fmt::format("its count at byte 8 is {} tokens, but {} bytes follow the header", count, bytes));
  }
  return static_cast<std::uint64_t>(count);
}

namespace {

template <typename Stored>
void write_tokens(const std::filesystem::path& path, std::int32_t magic, std::int32_t version,
                  std::span<const Stored> tokens) {
  if (tokens.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw Error(ErrorCode::usage,
                fmt::format("{}: a shard cannot hold {} tokens", path.string(), tokens.size()));
  }
  std::vector<std::uint8_t> bytes;
  bytes.reserve(shard_header_bytes + sizeof(Stored) * tokens.size());
  append_little_endian(bytes, static_cast<std::uint32_t>(magic), 4);
  append_little_endian(bytes, static_cast<std::uint32_t>(version), 4);
  append_little_endian(bytes, static_cast<std::uint32_t>(tokens.size()), 4);
  bytes.resize(shard_header_bytes, 0);
  for (const Stored token : tokens) append_little_endian(bytes, token, sizeof(Stored));
  OutputFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

}  // namespace

void write_shard(const std::filesystem::path& path, std::span<const compute::Token> tokens) {
  write_tokens(path, shard_magic, shard_version, tokens);
}

void write_wide_shard(const std::filesystem::path& path, std::span<const std::uint32_t> tokens) {
  write_tokens(path, wide_shard_magic, wide_shard_version, tokens);
}

}  // namespace muster::data
