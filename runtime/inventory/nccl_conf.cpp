// SPDX-License-Identifier: Apache-2.0
#include "inventory/nccl_conf.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace muster::bootstrap {
namespace {

constexpr std::size_t max_text_length = 1023;  // of a name or a value, by the size of NCCL's buffers
constexpr std::size_t max_file_size = 64 * 1024;

std::string_view before(std::string_view text, char end) { return text.substr(0, text.find(end)); }

std::string read_regular_file(const std::string& path) {
  // O_NONBLOCK: opening a pipe would wait for a writer.
  int const file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return "";
  std::string content;
  struct stat status {};
  if (::fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
    content.resize(max_file_size + 1);
    std::size_t done = 0;
    ssize_t got = 0;
    while (done < content.size() && (got = ::read(file, content.data() + done, content.size() - done)) > 0)
      done += static_cast<std::size_t>(got);
    content.resize(got < 0 || done > max_file_size ? 0 : done);
  }
  ::close(file);
  return content;
}

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
    if (equals == std::string_view::npos || !line.starts_with("NCCL_")) continue;
    settings.emplace(line.substr(0, std::min(equals, max_text_length)),
                     line.substr(equals + 1, max_text_length));
  }
  return settings;
}

std::map<std::string, std::string> read_nccl_confs(const std::string& root) {
  const char* const own = std::getenv("NCCL_CONF_FILE");
  std::string file;
  if (own != nullptr && *own != '\0') {
    file = (*own == '/' ? root : "") + own;
  } else if (auto const home = home_folder(); !home.empty()) {
    file = root + home + "/.nccl.conf";
  }
  auto settings = parse_nccl_conf(file.empty() ? "" : read_regular_file(file));
  settings.merge(parse_nccl_conf(read_regular_file(root + "/etc/nccl.conf")));
  return settings;
}

}  // namespace muster::bootstrap
