// SPDX-License-Identifier: Apache-2.0
#include "data/shard.hpp"

#include <fmt/format.h>

#include <limits>
#include <vector>

#include "files/output_file.hpp"
#include "muster/error.hpp"

namespace muster::data {
namespace {

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

ShardTokens tokens_in_shard(std::span<const std::uint8_t> content, const std::filesystem::path& path) {
  if (content.size() < shard_header_bytes) {
    refuse_shard(path, fmt::format("it has {} bytes, fewer than the {} of a header", content.size(),
                                   shard_header_bytes));
  }
  const std::int32_t magic = read_int32(content, 0);
  if (magic != shard_magic && magic != wide_shard_magic) {
    refuse_shard(path, fmt::format("its number at byte 0 is {}, and neither {} nor {}", magic, shard_magic,
                                   wide_shard_magic));
  }
  const bool is_wide = magic == wide_shard_magic;
  const std::int32_t version = read_int32(content, 1),
                     expected = is_wide ? wide_shard_version : shard_version;
  if (version != expected)
    refuse_shard(path, fmt::format("its version at byte 4 is {} and not {}", version, expected));
  const std::int32_t count = read_int32(content, 2);
  const std::uint64_t bytes = content.size() - shard_header_bytes;
  const int width = is_wide ? 4 : 2;
  if (count < 0 || static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(width) != bytes) {
    refuse_shard(path, fmt::format("its count at byte 8 is {} tokens of {} bytes, but {} bytes follow the "
                                   "header",
                                   count, width, bytes));
  }
  return {static_cast<std::uint64_t>(count), width};
}

void write_shard(const std::filesystem::path& path, std::span<const compute::Token> tokens, int vocabulary) {
  if (tokens.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw Error(ErrorCode::usage,
                fmt::format("{}: a shard cannot hold {} tokens", path.string(), tokens.size()));
  }
  const bool is_wide = vocabulary > most_two_byte_tokens;
  const std::size_t width = is_wide ? 4 : 2;
  std::vector<std::uint8_t> bytes;
  bytes.reserve(shard_header_bytes + width * tokens.size());
  append_little_endian(bytes, static_cast<std::uint32_t>(is_wide ? wide_shard_magic : shard_magic), 4);
  append_little_endian(bytes, static_cast<std::uint32_t>(is_wide ? wide_shard_version : shard_version), 4);
  append_little_endian(bytes, static_cast<std::uint32_t>(tokens.size()), 4);
  bytes.resize(shard_header_bytes, 0);
  for (const compute::Token token : tokens) append_little_endian(bytes, token, width);
  OutputFile file(path);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

}  // namespace muster::data
