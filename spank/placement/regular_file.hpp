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

}  // namespace muster::placement
