// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "data/file_mapping.hpp"

namespace muster::data {

/// Data of up to so many bytes are read whole before the first step, to check and to compare them: a fraction
/// of a second from the page cache. Terabytes need not be read.
inline constexpr std::uint64_t max_checked_bytes = std::uint64_t{1} << 30;

/// A regular file's bytes: mapped, or copied when the file is small (a mapping takes at least a page, and the
/// number of mappings is limited). A reader calls check_mapped_files() afterwards, unless the file is known
/// to be small.
class MappedFile {
 public:
  /// @throws muster::Error: usage (no such file, not a regular one), system (cannot be mapped).
  explicit MappedFile(std::filesystem::path path);

  const std::filesystem::path& path() const noexcept { return path_; }
  std::span<const std::uint8_t> bytes() const noexcept { return bytes_; }
  /// A hash of the whole content of a file of up to `whole` bytes, at least 4 MiB. For larger files a hash of
  /// the size and of 64 evenly spaced blocks of 64 KiB. `seed` chains calls.
  std::uint64_t fingerprint(std::uint64_t seed, std::uint64_t whole = max_checked_bytes) const noexcept;

 private:
  void read_whole(int descriptor, std::size_t size);

  std::filesystem::path path_;
  std::vector<std::uint8_t> copied_;
  std::optional<FileMapping> mapping_;
  std::span<const std::uint8_t> bytes_;
};

}  // namespace muster::data
