// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace muster::data {

/// A file's bytes, mapped to be read. If the file becomes shorter, or its file system reports an error, all
/// bytes are zero from then on, and check_mapped_files() throws. So a reader calls that after it has read,
/// and before it uses the bytes. In its last page, bytes behind a new end are zero without that. While
/// mappings exist, SIGBUS is handled for them; elsewhere it has its earlier effect.
class FileMapping {
 public:
  /// `descriptor` may be closed afterwards; `path` is for messages; size > 0.
  /// @throws muster::Error(ErrorCode::system) when the file cannot be mapped.
  FileMapping(int descriptor, std::size_t size, const std::filesystem::path& path);
  ~FileMapping();
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  std::span<const std::uint8_t> bytes() const noexcept { return bytes_; }

 private:
  std::span<const std::uint8_t> bytes_;
};

/// Thread-safe, and cheap while all files can be read.
/// @throws muster::Error when bytes of a mapped file could not be read: usage (it became shorter), system (an
/// error of its file system).
void check_mapped_files();

}  // namespace muster::data
