// SPDX-License-Identifier: Apache-2.0
#include "placement/topology/live/sysfs.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "file/descriptor.hpp"
#include "placement/topology/error.hpp"
#include "text/parse_number.hpp"

namespace muster::placement {

namespace {

constexpr std::size_t longest_file = 64 * 1024;
// Copies of /sys may hold the null character at the end of a text.
constexpr std::string_view space(" \t\r\n\0", 5);

/// Distinguishes a shortage of memory or descriptors from absence: otherwise existing devices would look
/// missing, and the node smaller than it is.
void throw_if_out_of_resources(int error, const std::string& path) {
  if (error == ENOMEM || error == EMFILE || error == ENFILE)
    throw Error(path + " cannot be read: " + std::strerror(error));
}

}  // namespace

Sysfs::Sysfs(std::string root) : root_(std::move(root)) {
  while (!root_.empty() && root_.back() == '/') root_.pop_back();
}

std::optional<std::string> Sysfs::text(const std::string& path) const {
  // O_NONBLOCK: a synthetic tree may hold a FIFO, which must not block a job step.
  const Descriptor file(open((root_ + path).c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!file.valid()) {
    throw_if_out_of_resources(errno, path);
    return std::nullopt;
  }
  std::string content;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(file.number(), buffer, sizeof buffer)) > 0 && content.size() <= longest_file) {
    content.append(buffer, static_cast<std::size_t>(got));
  }
  if (got < 0) throw_if_out_of_resources(errno, path);
  if (got < 0 || content.size() > longest_file) return std::nullopt;
  content.erase(content.find_last_not_of(space) + 1);
  return content;
}

std::optional<long> Sysfs::number(const std::string& path) const {
  const auto content = text(path);
  return content ? to_number(*content) : std::nullopt;
}

std::optional<CpuSet> Sysfs::list(const std::string& path) const {
  const auto content = text(path);
  return content ? CpuSet::parse_list(*content) : std::nullopt;
}

std::optional<CpuSet> Sysfs::mask(const std::string& path) const {
  const auto content = text(path);
  return content ? CpuSet::parse_mask(*content) : std::nullopt;
}

std::vector<std::string> Sysfs::names(const std::string& path) const {
  std::vector<std::string> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir((root_ + path).c_str()), closedir);
  if (folder == nullptr) {
    throw_if_out_of_resources(errno, path);
    return found;
  }
  while (const dirent* entry = readdir(folder.get())) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
      found.emplace_back(entry->d_name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

CpuSet Sysfs::numbers(const std::string& path, std::string_view prefix) const {
  CpuSet numbers;
  for (const auto& name : names(path)) {
    if (!name.starts_with(prefix)) continue;
    const auto number = to_number(std::string_view(name).substr(prefix.size()));
    if (number && *number >= 0 && *number < CpuSet::limit) numbers.add(static_cast<int>(*number));
  }
  return numbers;
}

std::optional<std::string> Sysfs::link(const std::string& path) const {
  char target[4096];
  const ssize_t length = readlink((root_ + path).c_str(), target, sizeof target);
  if (length <= 0 || length == static_cast<ssize_t>(sizeof target)) return std::nullopt;
  return std::string(target, static_cast<std::size_t>(length));
}

bool Sysfs::exists(const std::string& path) const { return access((root_ + path).c_str(), F_OK) == 0; }

std::uint64_t Sysfs::inode(const std::string& path) const {
  struct stat found {};
  return stat((root_ + path).c_str(), &found) == 0 ? found.st_ino : 0;
}

std::optional<long> to_number(std::string_view text) {
  const auto first = text.find_first_not_of(space);
  if (first == std::string_view::npos) return std::nullopt;
  return parse_number<long>(text.substr(first, text.find_last_not_of(space) - first + 1));
}

std::string base_name(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

}  // namespace muster::placement
