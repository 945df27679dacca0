// SPDX-License-Identifier: Apache-2.0
#include "plan_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "placement/regular_file.hpp"

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

}  // namespace

std::string plan_file_path(const PlanFileName& name) {
  const bool folder = name.wanted.empty() || name.wanted.back() == '/';
  const std::string pattern = folder ? name.wanted + "muster-%j.%s-%N.json" : name.wanted;
  std::string path;
  bool has_host = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    switch (next) {
      case 'j': path += std::to_string(name.job); break;
      case 's': path += std::to_string(name.step); break;
      case 'N': path += name.host; break;
      case '%': path += '%'; break;
      default: path += pattern[i]; continue;
    }
    has_host = has_host || next == 'N';
    ++i;
  }
  if (!has_host && !name.one_node) add_host(path, name.host);
  return path;
}

mode_t user_umask(const std::optional<std::string>& slurm_umask) {
  constexpr mode_t usual = 0022;
  if (!slurm_umask) return usual;
  mode_t mask = 0;
  const char* end = slurm_umask->data() + slurm_umask->size();
  const auto [stop, error] = std::from_chars(slurm_umask->data(), end, mask, 8);
  return error == std::errc() && stop == end && mask <= 0777 ? mask : usual;
}

void write_plan_file(const std::string& path, const std::string& text, mode_t mask) {
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    fail(path, "there is something of this name that is not a regular file");
  const std::size_t name = path.rfind('/') + 1;  // 0 when there is no folder
  std::string temporary(path, 0, name);
  temporary.append(".").append(path, name).append(".XXXXXX");
  const int descriptor = mkostemp(temporary.data(), O_CLOEXEC);
  if (descriptor < 0) fail(path, std::strerror(errno));
  const bool written = placement::write_all(descriptor, text) && fchmod(descriptor, 0666 & ~mask) == 0;
  const int error = errno;
  if (close(descriptor) == 0 && written && rename(temporary.c_str(), path.c_str()) == 0) return;
  const int late_error = errno;
  unlink(temporary.c_str());
  fail(path, std::strerror(written ? late_error : error));
}

}  // namespace muster::spank
