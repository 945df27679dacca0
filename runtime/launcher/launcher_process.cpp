// SPDX-License-Identifier: Apache-2.0
#include "launcher/launcher_process.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "log.hpp"
#include "proc_file.hpp"

namespace muster::bootstrap {
namespace {

constexpr std::array<std::string_view, 7> launcher_names{"slurmstepd", "orted", "mpirun", "mpiexec",
                                                         "orterun",    "prted", "prterun"};
constexpr int max_ancestors = 64;

// Name and parent, from /proc/PID/stat: "77 (a name) S 66 …".
std::pair<std::string, long> read_name_and_parent(long pid) {
  auto const text = read_proc_file(fmt::format("/proc/{}/stat", pid));
  auto const begin = text.find('(');
  auto const end = text.rfind(") ");
  if (begin == std::string::npos || end == std::string::npos || end < begin) return {"", 0};
  long parent = 0;
  auto const* const past_end = text.data() + text.size();
  std::from_chars(std::min(text.data() + end + std::string_view(") S ").size(), past_end), past_end, parent);
  return {text.substr(begin + 1, end - begin - 1), parent};
}

}  // namespace

std::optional<Launcher> find_launcher() {
  long pid = getppid();
  for (int i = 0; i < max_ancestors && pid > 1; ++i) {
    control::ProcessHandle process(pid);
    auto [name, parent] = read_name_and_parent(pid);
    name = name.substr(0, name.find('.'));  // Debian also has mpirun.openmpi
    if (process && std::find(launcher_names.begin(), launcher_names.end(), name) != launcher_names.end()) {
      log::debug("join: started by {}, pid {}", name, pid);
      return Launcher{std::move(process), name};
    }
    pid = parent;
  }
  return std::nullopt;
}

}  // namespace muster::bootstrap
