// SPDX-License-Identifier: Apache-2.0
#include "files/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "muster/error.hpp"

namespace muster {
namespace {

[[noreturn]] void fail_at(const char* action, const std::filesystem::path& path) {
  throw Error(ErrorCode::system,
              fmt::format("cannot {} {}: {}", action, path.string(), std::strerror(errno)));
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)), partial_(path_) {
  partial_ += ".partial";
  descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor_ < 0) fail("create");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!committed_) ::unlink(partial_.c_str());
}

void AtomicFile::fail(const char* action) const { fail_at(action, path_); }

void AtomicFile::write(const void* data, std::size_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t done = ::write(descriptor_, from, size);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail("write");
    from += done;
    size -= static_cast<std::size_t>(done);
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail("write");
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) fail("write");
  if (::rename(partial_.c_str(), path_.c_str()) != 0) fail("rename the new");
  committed_ = true;
  sync_parent_folder(path_);
}

void sync_parent_folder(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_at("sync the folder of", path);
  const int result = ::fsync(descriptor);
  const int reason = errno;
  ::close(descriptor);
  errno = reason;
  // Some network file systems cannot sync a folder and return EINVAL; the rename is then as durable as they
  // make it.
  if (result != 0 && reason != EINVAL) fail_at("sync the folder of", path);
}

}  // namespace muster
