// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "file/atomic_file.hpp"
#include "muster/error.hpp"

namespace muster::observe {

/// An atomic file for metrics or a timeline; until commit() it is ".NAME.PID.part". All throw
/// Error(ErrorCode::system), which names the file and the system's reason; commit() also for write().
class TelemetryFile : private AtomicFile {
 public:
  explicit TelemetryFile(const std::filesystem::path& path)
      : AtomicFile(path,
                   path.parent_path() / fmt::format(".{}.{}.part", path.filename().string(), getpid())) {
    require(error() == 0);
  }
  using AtomicFile::write;
  void commit() { require(AtomicFile::commit()); }

 private:
  void require(bool good) const {
    if (good) return;
    auto const what = failed_step() == Step::rename ? "cannot be put in place" : "cannot be written";
    throw Error(ErrorCode::system, fmt::format("{} {}: {}", path(), what, std::strerror(error())));
  }
};

}  // namespace muster::observe
