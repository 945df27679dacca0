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

#include "file/atomic_file.hpp"

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

// Returns the error; empty: written.
std::string replace_file(int folder, const std::string& name, const std::string& text, mode_t mask) {
  struct stat status {};
  if (fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(status.st_mode))
    return "there is something of this name that is not a regular file";
  AtomicFile file(name, "." + name + "." + std::to_string(getpid()),
                  {.folder = folder, .mode = 0666 & ~mask});
  file.write(text);
  return file.commit() ? "" : std::strerror(file.error());
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

void NodeRoot::hold() {
  struct stat root {};
  if (root_.valid() || stat("/", &root) != 0) return;
  root_ = Descriptor(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  device_ = root.st_dev;
  inode_ = root.st_ino;
}

bool NodeRoot::root_changed() const {
  struct stat root {};
  return stat("/", &root) == 0 && (root.st_dev != device_ || root.st_ino != inode_);
}

Descriptor NodeRoot::open_folder(const std::string& path) const {
  // If user_init ran in a process of its own (Slurm from 24.05 on, with a container), its descriptor is lost,
  // and the number may belong to another file.
  struct stat held {};
  if (fstat(root_.number(), &held) != 0 || held.st_dev != device_ || held.st_ino != inode_) {
    errno = EBADF;
    return Descriptor();
  }
  const std::string below = path.substr(std::min(path.find_first_not_of('/'), path.size()));
  return Descriptor(
      openat(root_.number(), below.empty() ? "." : below.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

PlanFile::PlanFile(std::string path) : path_(std::move(path)) {
  char* folder = realpath(parent_folder(path_).c_str(), nullptr);
  if (folder == nullptr) return;
  node_folder_ = folder;
  std::free(folder);
}

void PlanFile::write(const std::string& text, mode_t mask, const NodeRoot& root) const {
  const bool in_container = root.root_changed();
  Descriptor folder;
  if (!in_container)
    folder = Descriptor(open(parent_folder(path_).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  else if (!node_folder_.empty())
    folder = root.open_folder(node_folder_);
  if (!folder.valid()) fail(path_, in_container ? "the node has no such folder" : std::strerror(errno));
  const std::string name = path_.substr(path_.rfind('/') + 1);
  const std::string problem = replace_file(folder.number(), name, text, mask);
  if (!problem.empty()) fail(path_, problem);
}

}  // namespace muster::spank
