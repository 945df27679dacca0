// SPDX-License-Identifier: Apache-2.0
#include "files/atomic_folder.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "file/atomic_file.hpp"
#include "muster/error.hpp"

namespace muster {

namespace fs = std::filesystem;

namespace {

constexpr const char* partial_suffix = ".partial";
constexpr const char* removed_suffix = ".removed";

fs::path with_suffix(fs::path path, const char* suffix) {
  path += suffix;
  return path;
}

}  // namespace

AtomicFolder::AtomicFolder(fs::path path)
    : path_(std::move(path)), partial_(with_suffix(path_, partial_suffix)) {
  std::error_code error;
  fs::remove_all(partial_, error);
  // It also returns false, without an error, for a folder or a link to one that somebody made meanwhile.
  if (!error && !fs::create_directory(partial_, error) && !error)
    error = std::make_error_code(std::errc::file_exists);
  if (!error) return;
  errno = error.value();
  fail("create");
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(partial_, ignored);
}

void AtomicFolder::fail(const char* action) const {
  throw Error(ErrorCode::system,
              fmt::format("cannot {} {}: {}", action, path_.string(), std::strerror(errno)));
}

void AtomicFolder::commit() {
  // rename() cannot replace a folder that is not empty.
  const fs::path earlier = with_suffix(path_, removed_suffix);
  std::error_code ignored;
  fs::remove_all(earlier, ignored);
  const bool replaces = std::rename(path_.c_str(), earlier.c_str()) == 0;
  if (!replaces && errno != ENOENT) fail("replace the earlier");
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    if (replaces && std::rename(earlier.c_str(), path_.c_str()) != 0) {
      errno = reason;
      fail("put back the earlier");
    }
    errno = reason;
    fail("rename the new");
  }
  committed_ = true;
  if (!sync_parent_folder(path_)) fail("sync the folder of");
  fs::remove_all(earlier, ignored);
}

void remove_folder(const fs::path& path) noexcept {
  const fs::path removed = with_suffix(path, removed_suffix);
  std::error_code error;
  fs::remove_all(removed, error);
  fs::rename(path, removed, error);
  fs::remove_all(removed, error);
}

bool is_leftover(const std::string& name) {
  return name.ends_with(partial_suffix) || name.ends_with(removed_suffix);
}

}  // namespace muster
