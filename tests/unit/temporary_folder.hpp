// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

/// Writes a file; its folder must exist.
inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// A new folder that is removed with its content by the destructor.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "muster-test-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("cannot create a folder like " + pattern);
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

  /// Writes a file below it and creates missing folders; returns the full path.
  std::string write(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path file = new_path(name);
    write_file(file, bytes);
    return file.string();
  }
  /// Creates a symbolic link below it, and missing folders.
  void link(const std::string& name, const std::string& target) const {
    std::filesystem::create_symlink(target, new_path(name));
  }

 private:
  std::filesystem::path new_path(const std::string& name) const {
    if (std::filesystem::path(name).is_absolute())
      throw std::invalid_argument(name + " would not be in the temporary folder");
    std::filesystem::create_directories((path_ / name).parent_path());
    return path_ / name;
  }

  std::filesystem::path path_;
};
