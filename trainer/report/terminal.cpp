// SPDX-License-Identifier: Apache-2.0
#include "report/terminal.hpp"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace muster {
namespace {

std::size_t reported_columns() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/// Open MPI gives its processes a pseudo-terminal even when its own output is a file.
bool launcher_writes_to_terminal() {
  struct stat status {};
  const std::string output = "/proc/" + std::to_string(::getppid()) + "/fd/1";
  if (::stat(output.c_str(), &status) != 0 || !S_ISCHR(status.st_mode)) return false;
  const unsigned device = major(status.st_rdev);  // Linux: 4 and 5 are terminals, 136 to 143 pseudo-terminals
  return device == 4 || device == 5 || (device >= 136 && device <= 143);
}

}  // namespace

bool output_is_terminal() {
  if (::isatty(STDOUT_FILENO) != 1) return false;
  return std::getenv("OMPI_COMM_WORLD_RANK") == nullptr || launcher_writes_to_terminal();
}

std::size_t terminal_columns() {
  const std::size_t columns = reported_columns();
  return columns > 0 ? columns : 80;
}

}  // namespace muster
