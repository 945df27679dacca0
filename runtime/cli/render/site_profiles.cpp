// SPDX-License-Identifier: Apache-2.0
#include "render/site_profiles.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "build_parts.hpp"
#include "file/regular_file.hpp"

namespace muster::render {

namespace {

namespace fs = std::filesystem;
constexpr const char* ending = ".toml";
constexpr std::size_t longest_file = 1 << 20;

// Relative to the program, in any install prefix or in the build folder.
fs::path folder() {
  std::error_code error;
  const auto program = fs::read_symlink("/proc/self/exe", error);
  return (program.parent_path() / cli::sites_from_program).lexically_normal();
}

std::vector<std::string> profile_names() {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder(), error))
    if (entry.path().extension() == ending) found.push_back(entry.path().stem());
  if (found.empty())
    throw DescriptionError("No profiles in " + folder().string() +
                           ": install Muster's runtime package whole.");
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

Settings read_settings(const std::string& path) {
  errno = 0;
  const auto file = read_regular_file(path, longest_file);
  if (!file)
    throw DescriptionError(path + ": " +
                           (errno != 0 ? std::strerror(errno) : "is not a file of at most 1 MiB"));
  return parse_settings(file->text, path);
}

Settings read_profile(const std::string& name) {
  if (name.find('/') != std::string::npos || name.ends_with(ending)) return read_settings(name);
  const auto names = profile_names();
  if (std::find(names.begin(), names.end(), name) != names.end())
    return read_settings(folder() / (name + ending));
  std::string list;
  for (const auto& one : names) list += (list.empty() ? "" : ", ") + one;
  throw DescriptionError("no profile is called \"" + name.substr(0, 80) + "\": there are " + list +
                         "; a file of your own needs a / or the ending .toml");
}

std::string list_profiles() {
  const auto names = profile_names();
  std::size_t width = 0;
  for (const auto& name : names) width = std::max(width, name.size());
  std::string text;
  for (const auto& name : names) {
    const auto profile = read_profile(name);
    const auto description = profile.find("description");
    text += name + std::string(width - name.size(), ' ');
    if (description != profile.end())
      for (const auto& line : std::get<std::vector<std::string>>(description->second.value))
        text += "  " + line;
    text += "\n";
  }
  return text;
}

}  // namespace muster::render
