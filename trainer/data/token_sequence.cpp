// SPDX-License-Identifier: Apache-2.0
#include "data/token_sequence.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "data/shard.hpp"
#include "muster/error.hpp"

namespace muster::data {
namespace {

Token read_token(const std::uint8_t* from, int width) {
  if (width == 1) return *from;
  const Token low = Token{from[0]} | Token{from[1]} << 8;
  return width == 2 ? low : low | Token{from[2]} << 16 | Token{from[3]} << 24;
}

}  // namespace

void TokenSequence::append(std::shared_ptr<const MappedFile> file, std::uint64_t first_byte,
                           std::uint64_t count, int bytes_per_token) {
  if (count == 0) return;
  const std::uint64_t begin = size();
  pieces_.push_back({std::move(file), first_byte, bytes_per_token, begin, begin + count});
}

TokenSequence TokenSequence::part(std::uint64_t begin, std::uint64_t end) const {
  TokenSequence part;
  for (const Piece& piece : pieces_) {
    const std::uint64_t from = std::max(begin, piece.begin), to = std::min(end, piece.end);
    if (from >= to) continue;
    const auto width = static_cast<std::uint64_t>(piece.bytes_per_token);
    part.append(piece.file, piece.first_byte + (from - piece.begin) * width, to - from,
                piece.bytes_per_token);
  }
  return part;
}

void TokenSequence::copy(std::uint64_t begin, std::size_t count, int vocabulary, Token* to) const {
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), begin,
                                [](std::uint64_t at, const Piece& it) { return at < it.end; });
  while (count > 0) {
    const auto now = std::min<std::uint64_t>(count, piece->end - begin);
    copy_piece(*piece, begin - piece->begin, now, vocabulary, to);
    begin += now;
    to += now;
    count -= now;
    ++piece;
  }
  check_mapped_files();
}

void TokenSequence::check(int vocabulary) const {
  std::vector<Token> block(std::size_t{1} << 16);
  for (std::uint64_t begin = 0; begin < size(); begin += block.size())
    copy(begin, std::min<std::uint64_t>(block.size(), size() - begin), vocabulary, block.data());
}

void TokenSequence::copy_piece(const Piece& piece, std::uint64_t first, std::size_t count, int vocabulary,
                               Token* to) {
  const auto width = static_cast<std::uint64_t>(piece.bytes_per_token);
  const std::uint8_t* from = piece.file->bytes().data() + piece.first_byte + first * width;
  const auto limit = static_cast<Token>(vocabulary);
  Token largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = read_token(from + i * width, piece.bytes_per_token);
    largest = std::max(largest, to[i]);
  }
  if (largest < limit) return;
  const auto at = static_cast<std::uint64_t>(
      std::find_if(to, to + count, [&](Token token) { return token >= limit; }) - to);
  // The position in the message counts tokens of a shard or bytes of a text.
  const std::uint64_t header = width == 1 ? 0 : shard_header_bytes;
  const std::uint64_t position = (piece.first_byte - header) / width + first + at;
  throw Error(ErrorCode::usage, fmt::format("{}: token {} at position {} is not below --vocabulary {}{}",
                                            piece.file->path().string(), to[at], position, vocabulary,
                                            width == 1   ? ""
                                            : width == 2 ? " (GPT-2's is 50257)"
                                                         : " (Llama 3's is 128256)"));
}

}  // namespace muster::data
