// SPDX-License-Identifier: Apache-2.0
#include "files/append_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "muster/error.hpp"

namespace muster {

AppendFile::AppendFile(std::filesystem::path path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0)
    throw Error(ErrorCode::system, fmt::format("cannot open {}: {}", path_.string(), std::strerror(errno)));
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AppendFile::flush() {
  std::size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t count = ::write(descriptor_, pending_.data() + done, pending_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      throw Error(ErrorCode::system,
                  fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
    done += static_cast<std::size_t>(count);
  }
  pending_.clear();
}

}  // namespace muster
