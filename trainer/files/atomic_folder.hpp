// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace muster {

/// A folder that appears whole or not at all: filled as `path`.partial, then renamed to `path`. Whatever goes
/// wrong before commit() ends leaves an earlier `path` as it was; a process that is killed leaves a partial
/// folder at the most, which is no `path`.
class AtomicFolder {
 public:
  /// Removes what a killed process left of this name.
  /// @throws muster::Error(ErrorCode::system), as commit() does; the text names the path and the system's
  /// reason.
  explicit AtomicFolder(std::filesystem::path path);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  /// Where to write the file `name`, synced (AtomicFile).
  std::filesystem::path operator/(const std::string& name) const { return partial_ / name; }
  /// Renames the folder and syncs the one that it is in. An earlier folder of that path is removed.
  void commit();

 private:
  [[noreturn]] void fail(const char* doing) const;

  std::filesystem::path path_, partial_;
  bool committed_ = false;
};

/// Removes a folder so that it is never seen in part under its own name. Failures are left alone.
void remove_folder(const std::filesystem::path& path) noexcept;
/// True for the names that an AtomicFolder and remove_folder() leave when their process is killed.
bool is_leftover(const std::string& name);

}  // namespace muster
