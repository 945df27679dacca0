// SPDX-License-Identifier: Apache-2.0
#include "file/regular_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "file/descriptor.hpp"

namespace muster {

namespace {

bool read_all(int file, std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t got = read(file, text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  text.resize(done);
  return true;
}

}  // namespace

std::optional<RegularFile> read_regular_file(const std::string& path, std::size_t longest) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  return file.valid() ? read_regular_file(file.number(), longest) : std::nullopt;
}

std::optional<RegularFile> read_regular_file(int file, std::size_t longest) {
  RegularFile found;
  const bool usable = fstat(file, &found.status) == 0 && S_ISREG(found.status.st_mode) &&
                      static_cast<std::uintmax_t>(found.status.st_size) <= longest;
  if (!usable) return std::nullopt;
  found.text.resize(static_cast<std::size_t>(found.status.st_size));
  return read_all(file, found.text) ? std::optional(std::move(found)) : std::nullopt;
}

bool only_owner_writes(const struct stat& status, uid_t owner) {
  return status.st_uid == owner && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace muster
