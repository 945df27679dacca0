// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace muster {

/// A file that appears as a whole: it is written under another name in the same folder, ".NAME.PID.part", and
/// renamed by commit(). Without commit() nothing remains.
class ReplaceFile {
 public:
  /// @throws Error(ErrorCode::system) naming the file and the system's reason.
  explicit ReplaceFile(std::string path);
  ~ReplaceFile();
  ReplaceFile(const ReplaceFile&) = delete;
  ReplaceFile& operator=(const ReplaceFile&) = delete;

  /// @throws as above
  void write(std::string_view text);
  /// @throws as above
  void commit();

 private:
  [[noreturn]] void throw_error(const char* what) const;

  std::string path_;
  std::string part_;
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace muster
