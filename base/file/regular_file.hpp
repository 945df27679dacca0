// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

namespace muster {

struct RegularFile {
  std::string text;
  struct stat status {};  ///< of the open file, so that it belongs to this text
};

/// A file's content; nullopt if it cannot be opened, is not a regular file (reading a pipe could block
/// forever) or is longer than `longest` bytes.
std::optional<RegularFile> read_regular_file(const std::string& path, std::size_t longest);

/// The same for an open file, which stays open. If the file shrinks meanwhile, returns the rest.
std::optional<RegularFile> read_regular_file(int file, std::size_t longest);

/// True if the file or folder belongs to `owner`, and neither its group nor others can write to it.
bool only_owner_writes(const struct stat& status, uid_t owner);

}  // namespace muster
