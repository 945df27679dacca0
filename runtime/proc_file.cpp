// SPDX-License-Identifier: Apache-2.0
#include "proc_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>

namespace muster {

std::string read_proc_file(const std::string& path) {
  int const file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  std::string content;
  std::array<char, 4096> buffer;
  ssize_t got = 0;
  while ((got = ::read(file, buffer.data(), buffer.size())) > 0)
    content.append(buffer.data(), static_cast<std::size_t>(got));
  ::close(file);
  return got == 0 ? content : "";
}

std::string read_first_line(const std::string& path) {
  auto const content = read_proc_file(path);
  return content.substr(0, content.find('\n'));
}

}  // namespace muster
