// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "catch.hpp"

// A folder with a file (a FIFO without a writer) whose reader blocks in open().
class FolderWithSilentFile {
 public:
  explicit FolderWithSilentFile(const std::string& file) {
    std::string name = (std::filesystem::temp_directory_path() / "muster-silent-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    root = name;
    silent_ = root / file;
    std::filesystem::create_directories(silent_.parent_path());
    REQUIRE(mkfifo(silent_.c_str(), 0600) == 0);
  }
  ~FolderWithSilentFile() {
    int const end = open(silent_.c_str(), O_WRONLY | O_NONBLOCK);  // releases the blocked reader
    if (end >= 0) close(end);
    std::filesystem::remove_all(root);
  }
  FolderWithSilentFile(const FolderWithSilentFile&) = delete;
  FolderWithSilentFile& operator=(const FolderWithSilentFile&) = delete;

  std::filesystem::path root;

 private:
  std::filesystem::path silent_;
};
