// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "file/descriptor.hpp"

namespace muster {

struct AtomicFileOptions {
  int folder = AT_FDCWD;                      ///< an open folder that relative paths start from
  std::optional<mode_t> mode = std::nullopt;  ///< nullopt: what the umask leaves of 0666
  bool durable = false;  ///< commit() syncs the file and its folder: it survives a crash of the machine
};

/// A file that appears whole or not at all: written under a temporary name in the same folder, then renamed.
/// Until commit() has renamed it, an earlier file of its name stays unchanged. After an error, or without
/// commit(), the temporary file is removed. Follows no symbolic link in place of either file.
/// The first error is kept, and later calls do nothing, so it is enough to look at the end. Not thread-safe.
class AtomicFile {
 public:
  enum class Step { create, write, rename, sync_folder };

  /// Creates `temporary`. Removes an earlier one, which a killed process left.
  AtomicFile(std::string path, std::string temporary, const AtomicFileOptions& options = {});
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t size) { write({static_cast<const char*>(data), size}); }
  void write(std::string_view bytes);
  /// False after any error.
  [[nodiscard]] bool commit();

  const std::string& path() const { return path_; }
  /// The errno of the first error; 0 if there was none.
  int error() const { return error_; }
  /// The step that had it.
  Step failed_step() const { return failed_step_; }

 private:
  bool check(bool good, Step step);

  std::string path_, temporary_;
  AtomicFileOptions options_;
  Descriptor file_;
  int error_ = 0;
  Step failed_step_ = Step::create;
  bool temporary_exists_ = false;
};

/// The path up to its last slash; "." without one.
std::string parent_folder(const std::string& path);

/// Syncs the folder of `path`, so that a rename or creation of `path` survives a crash of the machine. False
/// and errno if that fails.
bool sync_parent_folder(const std::string& path, int folder = AT_FDCWD);

}  // namespace muster
