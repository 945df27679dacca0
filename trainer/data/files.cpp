// SPDX-License-Identifier: Apache-2.0
#include "data/files.hpp"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>

#include "muster/error.hpp"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

using Files = std::map<fs::path, fs::path>;

void insert_file(const fs::path& name, Files& files) {
  const auto [at, fresh] = files.emplace(fs::canonical(name), name);
  if (!fresh) at->second = std::min(at->second, name);
}

[[noreturn]] void refuse_path(const fs::path& path, const std::string& why) {
  throw Error(ErrorCode::usage, fmt::format("cannot read {}: {} (--data takes a file, a folder, or a list of "
                                            "files and patterns; muster-train make-data generates some)",
                                            path.string(), why));
}

void add_path(const fs::path& path, Files& files) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error) refuse_path(path, error.message());
  if (fs::is_regular_file(status)) {
    insert_file(path, files);
    return;
  }
  if (!fs::is_directory(status)) refuse_path(path, "neither a regular file nor a folder");
  fs::recursive_directory_iterator entry(fs::canonical(path), error), end;
  if (error) refuse_path(path, error.message());
  bool found = false;
  while (entry != end) {
    std::error_code entry_error;
    if (entry->is_regular_file(entry_error)) {
      insert_file(entry->path(), files);
      found = true;
    }
    entry.increment(error);
    if (error) refuse_path(path, error.message());
  }
  if (!found) refuse_path(path, "there is no regular file in it");
}

void add_pattern(const std::string& pattern, Files& files) {
  glob_t matches{};
  const int code = ::glob(pattern.c_str(), GLOB_ERR, nullptr, &matches);
  try {
    if (code != 0) refuse_path(pattern, code == GLOB_NOMATCH ? "no file matches" : "a folder cannot be read");
    for (std::size_t i = 0; i < matches.gl_pathc; ++i) add_path(matches.gl_pathv[i], files);
  } catch (...) {
    ::globfree(&matches);
    throw;
  }
  ::globfree(&matches);
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

}  // namespace

std::map<fs::path, fs::path> find_data_files(const std::string& where) {
  Files files;
  const bool several = where.find_first_of(",*?[") != std::string::npos;
  if (!several || exists(where)) {
    add_path(where, files);
    return files;
  }
  for (std::size_t begin = 0; begin <= where.size();) {
    const std::size_t end = std::min(where.find(',', begin), where.size());
    const std::string part = where.substr(begin, end - begin);
    if (part.empty()) refuse_path(where, "an entry of the list is empty");
    const bool pattern = part.find_first_of("*?[") != std::string::npos && !exists(part);
    pattern ? add_pattern(part, files) : add_path(part, files);
    begin = end + 1;
  }
  return files;
}

}  // namespace muster::data
