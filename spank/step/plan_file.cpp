// SPDX-License-Identifier: Apache-2.0
#include "step/plan_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "placement/topology/regular_file.hpp"

namespace muster::spank {

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw std::runtime_error("the plan cannot be written to " + path + ": " + why);
}

void add_host(std::string& path, const std::string& host) {
  const std::size_t name = path.rfind('/') + 1;  // 0 when there is no folder
  const std::size_t dot = path.rfind('.');
  path.insert(dot == std::string::npos || dot <= name ? path.size() : dot, "-" + host);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// Returns the error; empty: written.
std::string replace_file(int folder, const std::string& name, const std::string& text, mode_t mask) {
  struct stat status {};
  if (fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(status.st_mode))
    return "there is something of this name that is not a regular file";
  const std::string temporary = "." + name + "." + std::to_string(getpid());
  unlinkat(folder, temporary.c_str(), 0);  // of a process that was killed
  const int descriptor =
      openat(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (descriptor < 0) return std::strerror(errno);
  const bool written = placement::write_all(descriptor, text) && fchmod(descriptor, 0666 & ~mask) == 0;
  int error = errno;
  const bool closed = close(descriptor) == 0;
  if (closed && written && renameat(folder, temporary.c_str(), folder, name.c_str()) == 0) return {};
  if (written) error = errno;
  unlinkat(folder, temporary.c_str(), 0);
  return std::strerror(error);
}

}  // namespace

std::string plan_file_path(const PlanFileName& name) {
  const bool folder = name.requested_path.empty() || name.requested_path.back() == '/';
  const std::string pattern = folder ? name.requested_path + "muster-%j.%s-%N.json" : name.requested_path;
  std::string path;
  bool has_host = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    switch (next) {
      case 'j':
        path += std::to_string(name.job);
        break;
      case 's':
        path += std::to_string(name.step);
        break;
      case 'N':
        path += name.host;
        break;
      case '%':
        path += '%';
        break;
      default:
        path += pattern[i];
        continue;
    }
    has_host = has_host || next == 'N';
    ++i;
  }
  if (!has_host && !name.single_node) add_host(path, name.host);
  return path;
}

mode_t parse_umask(const std::optional<std::string>& slurm_umask) {
  constexpr mode_t usual = 0022;
  if (!slurm_umask) return usual;
  mode_t mask = 0;
  const char* end = slurm_umask->data() + slurm_umask->size();
  const auto [stop, error] = std::from_chars(slurm_umask->data(), end, mask, 8);
  return error == std::errc() && stop == end && mask <= 0777 ? mask : usual;
}

NodeRoot::~NodeRoot() {
  if (descriptor_ >= 0) close(descriptor_);
}

void NodeRoot::hold() {
  struct stat root {};
  if (descriptor_ >= 0 || stat("/", &root) != 0) return;
  descriptor_ = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  device_ = root.st_dev;
  inode_ = root.st_ino;
}

bool NodeRoot::root_changed() const {
  struct stat root {};
  return stat("/", &root) == 0 && (root.st_dev != device_ || root.st_ino != inode_);
}

int NodeRoot::open_folder(const std::string& path) const {
  // If user_init ran in a process of its own (Slurm from 24.05 on, with a container), its descriptor is lost,
  // and the number may belong to another file.
  struct stat held {};
  if (descriptor_ < 0 || fstat(descriptor_, &held) != 0 || held.st_dev != device_ || held.st_ino != inode_) {
    errno = EBADF;
    return -1;
  }
  const std::string below = path.substr(std::min(path.find_first_not_of('/'), path.size()));
  return openat(descriptor_, below.empty() ? "." : below.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
}

PlanFile::PlanFile(std::string path) : path_(std::move(path)) {
  char* folder = realpath(folder_of(path_).c_str(), nullptr);
  if (folder == nullptr) return;
  node_folder_ = folder;
  std::free(folder);
}

void PlanFile::write(const std::string& text, mode_t mask, const NodeRoot& root) const {
  const bool in_container = root.root_changed();
  int folder = -1;
  if (!in_container)
    folder = open(folder_of(path_).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  else if (!node_folder_.empty())
    folder = root.open_folder(node_folder_);
  if (folder < 0) fail(path_, in_container ? "the node has no such folder" : std::strerror(errno));
  const std::string name = path_.substr(path_.rfind('/') + 1);
  const std::string problem = replace_file(folder, name, text, mask);
  close(folder);
  if (!problem.empty()) fail(path_, problem);
}

}  // namespace muster::spank
