// SPDX-License-Identifier: Apache-2.0
#include "files/append_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "file/user_file.hpp"
#include "file/write_all.hpp"
#include "muster/error.hpp"

namespace muster {

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  std::string why;
  file_ = open_user_file(path_, O_WRONLY | O_APPEND, why);
  if (!file_.valid()) throw Error(ErrorCode::system, fmt::format("cannot open {}: {}", path_.string(), why));
}

void AppendFile::flush() {
  if (!write_all(file_.number(), pending_))
    throw Error(ErrorCode::system, fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
  pending_.clear();
}

}  // namespace muster
