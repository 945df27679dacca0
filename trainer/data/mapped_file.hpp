// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace muster::data {

/// A regular file's bytes: mapped, or copied when the file is small (a mapping takes at least a page, and the
/// number of mappings is limited). A file that is truncated while it is mapped ends the process with SIGBUS.
class MappedFile {
 public:
  /// @throws muster::Error: usage (no such file, not a regular one), system (cannot be mapped).
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::span<const std::uint8_t> bytes() const noexcept { return bytes_; }
  /// A hash of the whole content for files up to 4 MiB. For larger files a hash of the size and of 64 evenly
  /// spaced blocks of 64 KiB, so that terabytes need not be read before the first step. `seed` chains calls.
  std::uint64_t fingerprint(std::uint64_t seed) const noexcept;

 private:
  void read_whole(int descriptor, std::size_t size);

  std::filesystem::path path_;
  std::vector<std::uint8_t> copied_;
  void* mapping_ = nullptr;
  std::span<const std::uint8_t> bytes_;
};

}  // namespace muster::data
