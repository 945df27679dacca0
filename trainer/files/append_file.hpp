// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "file/descriptor.hpp"

namespace muster {

/// A file for appending: flush() writes what was added since the last flush.
class AppendFile {
 public:
  /// Opens the file; creates it when it does not exist. Refuses links, FIFOs and other users' files.
  /// @throws muster::Error(ErrorCode::system), as flush() does.
  explicit AppendFile(std::filesystem::path path);

  void add(const std::string& bytes) { pending_ += bytes; }
  void flush();

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::string pending_;
};

}  // namespace muster
