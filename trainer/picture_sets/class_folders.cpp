// SPDX-License-Identifier: Apache-2.0
#include "picture_sets/class_folders.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "muster/error.hpp"
#include "text/lower_case.hpp"
#include "text/printable.hpp"

namespace muster::picture_sets {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& folder, const std::string& why) {
  throw Error(ErrorCode::usage, printable(fmt::format("--data: {}: {}", folder.string(), why)));
}

/// Paths below `folder`, relative to `root`.
std::vector<std::string> list_pictures(const fs::path& root, const std::string& name) {
  std::vector<std::string> paths;
  std::error_code error;
  fs::recursive_directory_iterator entry(root / name, fs::directory_options::follow_directory_symlink, error);
  while (!error && entry != fs::recursive_directory_iterator()) {
    std::error_code ignored;
    const bool is_file = entry->is_regular_file(ignored);
    if (is_file && is_picture_ending(entry->path().extension().string()))
      paths.push_back(entry->path().lexically_relative(root).string());
    entry.increment(error);
  }
  if (error) refuse(root / name, error.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

bool is_picture_ending(const std::string& ending) {
  const std::string end = lower_case(ending);
  return end == ".jpg" || end == ".jpeg" || end == ".png";
}

std::vector<std::string> list_classes(const fs::path& folder) {
  std::vector<std::string> classes;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    std::string name = entry->path().filename().string();
    if (entry->is_directory(ignored) && !name.starts_with('.')) classes.push_back(std::move(name));
  }
  if (error) refuse(folder, error.message());
  std::sort(classes.begin(), classes.end());
  return classes;
}

std::vector<PictureFile> list_class_files(const fs::path& folder, const std::vector<std::string>& classes) {
  for (const std::string& name : list_classes(folder)) {
    if (std::binary_search(classes.begin(), classes.end(), name)) continue;
    refuse(folder / name, "it is a folder of no class to train on");
  }
  std::vector<PictureFile> files;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    std::error_code ignored;
    if (!fs::exists(folder / classes[label], ignored)) continue;
    auto paths = list_pictures(folder, classes[label]);
    if (paths.empty())
      refuse(folder / classes[label], "there is no .jpg, .jpeg or .png in this class's folder");
    for (std::string& path : paths) files.push_back({std::move(path), static_cast<std::int64_t>(label)});
  }
  return files;
}

}  // namespace muster::picture_sets
