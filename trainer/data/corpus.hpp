// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace muster::data {

/// All bytes of a text file or folder, cut into training text and the held-out end.
class Corpus {
 public:
  /// Reads a file, or every regular file below a folder: symbolic links to files are followed, each real file
  /// is read once, and files come in the order of their real paths, so that every rank sees the same bytes.
  /// Links to folders are not followed. The last validation_fraction (0 to 0.9) of the bytes is held out.
  /// @throws muster::Error(Fault::usage): no such path, nothing readable, empty, or nothing left on one side
  /// of the cut.
  static Corpus read(const std::filesystem::path& path, double validation_fraction);

  std::size_t size() const noexcept { return bytes_.size(); }
  std::size_t file_count() const noexcept { return file_count_; }
  std::uint64_t hash() const noexcept { return hash_; }
  std::span<const std::uint8_t> training() const noexcept { return std::span(bytes_).first(training_size_); }
  std::size_t held_out_size() const noexcept { return bytes_.size() - training_size_; }
  /// The held-out bytes and the one before them, from which the first is predicted. Empty when nothing is
  /// held out.
  std::span<const std::uint8_t> held_out_with_lead() const noexcept;

 private:
  std::vector<std::uint8_t> bytes_;
  std::size_t file_count_ = 0, training_size_ = 0;
  std::uint64_t hash_ = 0;
};

}  // namespace muster::data
