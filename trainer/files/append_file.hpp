// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace muster {

/// A file for appending: flush() writes what was added since the last flush.
class AppendFile {
 public:
  /// Opens the file; creates it when it does not exist.
  /// @throws muster::Error(ErrorCode::system), as flush() does.
  explicit AppendFile(std::filesystem::path path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void add(const std::string& bytes) { pending_ += bytes; }
  void flush();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string pending_;
};

}  // namespace muster
