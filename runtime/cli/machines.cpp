// SPDX-License-Identifier: Apache-2.0
#include "machines.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "build_parts.hpp"
#include "placement/topology/error.hpp"
#include "placement/topology/read_machine.hpp"

namespace muster::cli {

namespace {

namespace fs = std::filesystem;
constexpr const char* ending = ".machine";

// Relative to the program, in any install prefix or in the build folder.
fs::path folder() {
  std::error_code error;
  const auto program = fs::read_symlink("/proc/self/exe", error);
  return (program.parent_path() / machines_from_program).lexically_normal();
}

std::vector<std::string> machine_names() {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder(), error))
    if (entry.path().extension() == ending) found.push_back(entry.path().stem());
  if (found.empty())
    throw placement::Error("No machine descriptions in " + folder().string() +
                           ": install Muster's runtime package whole.");
  std::sort(found.begin(), found.end());
  return found;
}

placement::Machine read(const std::string& name) {
  return placement::read_machine(folder() / (name + ending));
}

}  // namespace

placement::Node find_machine(const std::string& name) {
  const auto available = machine_names();
  if (std::find(available.begin(), available.end(), name) != available.end()) return read(name).node;
  std::string list;
  for (const auto& one : available) list += (list.empty() ? "" : ", ") + one;
  throw placement::Error("No machine is called \"" + name.substr(0, 80) + "\": there are " + list + ".");
}

std::string list_machines() {
  const auto available = machine_names();
  std::size_t width = 0;
  for (const auto& name : available) width = std::max(width, name.size());
  std::string text;
  for (const auto& name : available)
    text += name + std::string(width - name.size() + 2, ' ') + read(name).description + "\n";
  return text;
}

}  // namespace muster::cli
