// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace muster {

/// A file that appears whole or not at all: written as `path`.partial in the same folder, synced, then
/// renamed to `path`. On an error before the end of commit(), an earlier `path` stays unchanged and the
/// partial file is removed.
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
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path path_, partial_;
  int descriptor_ = -1;
  bool committed_ = false;
};

/// Syncs the folder of `path`, so that a rename or creation of `path` is durable.
/// @throws muster::Error(ErrorCode::system)
void sync_parent_folder(const std::filesystem::path& path);

}  // namespace muster
