// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace muster {

/// A file that appears whole or not at all: written as `path`.partial in the same folder, synced, then
/// renamed over `path`. Whatever goes wrong before commit() ends leaves an earlier `path` as it was and
/// removes the partial file.
class AtomicFile {
 public:
  /// @throws muster::Error(ErrorCode::system), as write() and commit() do; the text names the path and the
  /// system's reason.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Syncs the file, renames it, syncs the folder.
  void commit();

 private:
  [[noreturn]] void fail(const char* doing) const;

  std::filesystem::path path_, partial_;
  int descriptor_ = -1;
  bool committed_ = false;
};

/// Makes what was renamed or created as `path` last: syncs the folder that it is in.
/// @throws muster::Error(ErrorCode::system)
void sync_folder_of(const std::filesystem::path& path);

}  // namespace muster
