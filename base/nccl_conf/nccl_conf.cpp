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

std::string find_user_nccl_conf(const std::string& nccl_conf_file) {
  if (!nccl_conf_file.empty()) return nccl_conf_file;
  auto const home = home_folder();
  return home.empty() ? "" : home + "/.nccl.conf";
}

std::map<std::string, std::string> read_nccl_confs(const std::string& root) {
  const char* const own = std::getenv("NCCL_CONF_FILE");
  auto const file = find_user_nccl_conf(own == nullptr ? "" : own);
  auto settings = read_nccl_conf((file.starts_with('/') ? root : "") + file);
  settings.merge(read_nccl_conf(root + "/etc/nccl.conf"));
  return settings;
}

}  // namespace muster
