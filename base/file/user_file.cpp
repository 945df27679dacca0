// SPDX-License-Identifier: Apache-2.0
#include "file/user_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace muster {

Descriptor open_user_file(const std::string& path, int flags, std::string& why) {
  Descriptor file(open(path.c_str(), flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666));
  struct stat status {};
  if (!file.valid() && errno == ELOOP)
    why = "it is a symbolic link";
  else if (!file.valid() && errno != ENXIO)  // ENXIO: a FIFO that nobody reads, or a socket
    why = std::strerror(errno);
  else if (!file.valid() || fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode))
    why = "it is not a regular file";
  else if (status.st_uid != geteuid())
    why = "it belongs to user " + std::to_string(status.st_uid) + ": remove it, or choose another folder";
  else
    return file;
  return Descriptor();
}

}  // namespace muster
