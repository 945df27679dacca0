// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

namespace muster::placement {

struct RegularFile {
  std::string text;
  struct stat status {};  ///< of what was read, so that nobody can exchange it in between
};

/// A file's content; nullopt if it cannot be opened, is no regular file (a pipe would wait for ever) or is
/// longer than `longest` bytes.
std::optional<RegularFile> read_regular_file(const std::string& path, std::size_t longest);

/// The same of an open file, which stays open. A file that shrinks meanwhile gives what was left of it.
std::optional<RegularFile> read_regular_file(int file, std::size_t longest);

/// False with errno when not all of the text could be written.
bool write_all(int file, const std::string& text);

/// The file or folder is this user's, and neither its group nor others can write to it.
bool only_owner_writes(const struct stat& status, uid_t owner);

}  // namespace muster::placement
