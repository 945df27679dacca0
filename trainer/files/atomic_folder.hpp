// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace muster {

/// A folder that appears whole or not at all: filled as `path`.partial, then renamed to `path`. On an error
/// before the end of commit(), an earlier `path` stays unchanged. A killed process leaves at most a partial
/// folder under another name.
class AtomicFolder {
 public:
  /// Removes what a killed process left of this folder.
  /// @throws muster::Error(ErrorCode::system), as commit() does; the text names the path and the system's
  /// reason.
  explicit AtomicFolder(std::filesystem::path path);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  /// Path at which to write the file `name`. The caller syncs it (OutputFile).
  std::filesystem::path operator/(const std::string& name) const { return partial_ / name; }
  /// Renames the folder and syncs its parent. Removes an earlier folder of that path.
  void commit();

 private:
  [[noreturn]] void fail(const char* action) const;

  std::filesystem::path path_, partial_;
  bool committed_ = false;
};

/// Removes a folder so that it is never visible in part under its own name. Ignores errors.
void remove_folder(const std::filesystem::path& path) noexcept;
/// True for the names of folders that remain when the process is killed during AtomicFolder or
/// remove_folder().
bool is_leftover(const std::string& name);

}  // namespace muster
