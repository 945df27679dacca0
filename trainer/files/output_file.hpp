// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <filesystem>

#include "file/atomic_file.hpp"
#include "muster/error.hpp"

namespace muster {

/// An atomic file that survives a crash of the machine; until commit() it is `path`.partial. All throw
/// muster::Error(ErrorCode::system), which names the path and the system's reason; commit() also for write().
class OutputFile : private AtomicFile {
 public:
  explicit OutputFile(const std::filesystem::path& path)
      : AtomicFile(path, path.string() + ".partial", {.durable = true}) {
    require(error() == 0);
  }
  using AtomicFile::write;
  void commit() { require(AtomicFile::commit()); }

 private:
  void require(bool good) const {
    if (good) return;
    constexpr const char* actions[] = {"create", "write", "rename the new", "sync the folder of"};  // by Step
    throw Error(ErrorCode::system, fmt::format("cannot {} {}: {}", actions[static_cast<int>(failed_step())],
                                               path(), std::strerror(error())));
  }
};

}  // namespace muster
