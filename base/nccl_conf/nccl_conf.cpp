// SPDX-License-Identifier: Apache-2.0
#include "nccl_conf/nccl_conf.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "file/regular_file.hpp"

namespace muster {
namespace {

constexpr std::size_t max_text_length = 1023;  // of a name or a value, by the size of NCCL's buffers
constexpr std::size_t max_file_size = 64 * 1024;

std::string_view before(std::string_view text, char end) { return text.substr(0, text.find(end)); }

// From the user database, as NCCL does, and not from HOME.
std::string home_folder() {
  std::array<char, 4096> room{};
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(::getuid(), &entry, room.data(), room.size(), &found) != 0 || found == nullptr) return "";
  return found->pw_dir == nullptr ? "" : found->pw_dir;
}

}  // namespace

std::map<std::string, std::string> parse_nccl_conf(std::string_view text) {
  std::map<std::string, std::string> settings;
  while (!text.empty()) {
    auto line = before(text, '\n');
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    line = before(line, '\0');
    auto const equals = line.find('=');
    if (equals == std::string_view::npos || equals == 0 || line.starts_with('#')) continue;
    settings.emplace(line.substr(0, std::min(equals, max_text_length)),
                     line.substr(equals + 1, max_text_length));
  }
  return settings;
}

std::map<std::string, std::string> read_nccl_conf(const std::string& path) {
  auto const file = read_regular_file(path, max_file_size);
  return parse_nccl_conf(file ? file->text : "");
}

std::map<std::string, std::string> read_nccl_confs(const std::string& root) {
  const char* const own = std::getenv("NCCL_CONF_FILE");
  std::string file;
  if (own != nullptr && *own != '\0') {
    file = (*own == '/' ? root : "") + own;
  } else if (auto const home = home_folder(); !home.empty()) {
    file = root + home + "/.nccl.conf";
  }
  auto settings = read_nccl_conf(file);
  settings.merge(read_nccl_conf(root + "/etc/nccl.conf"));
  return settings;
}

}  // namespace muster
