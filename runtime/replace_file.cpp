// SPDX-License-Identifier: Apache-2.0
#include "replace_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "muster/error.hpp"

namespace muster {

ReplaceFile::ReplaceFile(std::string path) : path_(std::move(path)) {
  std::filesystem::path const whole(path_);
  part_ = (whole.parent_path() / fmt::format(".{}.{}.part", whole.filename().string(), getpid())).string();
  unlink(part_.c_str());  // an earlier process with this pid may have been killed
  int const descriptor = open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor >= 0) file_.reset(fdopen(descriptor, "w"));
  if (!file_) throw_error("cannot be written");
}

ReplaceFile::~ReplaceFile() {
  if (!file_) return;
  file_.reset();
  unlink(part_.c_str());
}

void ReplaceFile::throw_error(const char* what) const {
  throw Error(ErrorCode::system, fmt::format("{} {}: {}", path_, what, std::strerror(errno)));
}

void ReplaceFile::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) throw_error("cannot be written");
}

void ReplaceFile::commit() {
  if (std::fflush(file_.get()) != 0) throw_error("cannot be written");
  if (std::rename(part_.c_str(), path_.c_str()) != 0) throw_error("cannot be put in place");
  file_.reset();
}

}  // namespace muster
