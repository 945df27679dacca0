// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "compute/token.hpp"
#include "data/mapped_file.hpp"

namespace muster::data {

using compute::Token;

/// Tokens of several files as one sequence. Files stay mapped while this object or a part of it exists.
/// Reading is thread-safe.
class TokenSequence {
 public:
  /// Appends `count` tokens that begin at byte `first_byte` of the file, each of one, two or four
  /// bytes (little-endian).
  void append(std::shared_ptr<const MappedFile> file, std::uint64_t first_byte, std::uint64_t count,
              int bytes_per_token);

  std::uint64_t size() const noexcept { return pieces_.empty() ? 0 : pieces_.back().end; }
  bool empty() const noexcept { return size() == 0; }
  /// Tokens [begin, end), begin <= end <= size().
  TokenSequence part(std::uint64_t begin, std::uint64_t end) const;

  /// Copies tokens [begin, begin + count), which must exist, to `to`.
  /// @throws muster::Error: usage when a token is not below `vocabulary`; the text names file and position;
  /// or as check_mapped_files().
  void copy(std::uint64_t begin, std::size_t count, int vocabulary, Token* to) const;
  /// Reads all tokens. @throws muster::Error as copy().
  void check(int vocabulary) const;

 private:
  struct Piece {
    std::shared_ptr<const MappedFile> file;
    std::uint64_t first_byte;
    int bytes_per_token;
    std::uint64_t begin, end;  ///< in the sequence
  };
  static void copy_piece(const Piece& piece, std::uint64_t first, std::size_t count, int vocabulary,
                         Token* to);

  std::vector<Piece> pieces_;
};

}  // namespace muster::data
