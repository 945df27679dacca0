// SPDX-License-Identifier: Apache-2.0
#include "files/folder_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "muster/error.hpp"

namespace muster {
namespace {

std::string describe_this_process() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return fmt::format("process {} on {}", ::getpid(), host);
}

std::string read_first_line(int file) {
  char text[512];
  const ssize_t length = ::pread(file, text, sizeof text, 0);
  const std::string whole(text, length > 0 ? static_cast<std::size_t>(length) : 0);
  const std::string line = whole.substr(0, whole.find('\n'));
  return line.empty() ? "another process" : line;
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder, std::chrono::milliseconds timeout) {
  const std::filesystem::path path = folder / ".lock";
  file_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file_.valid())
    throw Error(ErrorCode::system, fmt::format("cannot open {}: {}", path.string(), std::strerror(errno)));
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (::flock(file_.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return;  // this file system has no locks
    if (std::chrono::steady_clock::now() >= until) {
      const std::string holder = read_first_line(file_.number());
      throw Error(ErrorCode::usage,
                  fmt::format("{} trains into {} already: give this run another --output, or wait for it",
                              holder, folder.string()));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const std::string mine = describe_this_process() + '\n';
  // The text is only for error messages: the lock works without it.
  if (::ftruncate(file_.number(), 0) == 0) (void)!::pwrite(file_.number(), mine.data(), mine.size(), 0);
}

}  // namespace muster
