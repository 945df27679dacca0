// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "catch.hpp"
#include "content.hpp"
#include "file/atomic_file.hpp"
#include "temporary_folder.hpp"

using muster::AtomicFile;

namespace {

std::ptrdiff_t files_in(const TemporaryFolder& folder) {
  return std::distance(std::filesystem::directory_iterator(folder.path()),
                       std::filesystem::directory_iterator());
}

}  // namespace

TEST_CASE("An atomic file replaces an earlier file at its commit") {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "earlier");
  {
    AtomicFile file(path, path + ".new");
    file.write("one ");
    file.write("two", 3);
    CHECK(content(path) == "earlier");
    CHECK(file.commit());
    CHECK(file.error() == 0);
  }
  CHECK(content(path) == "one two");
  CHECK(files_in(folder) == 1);
}

TEST_CASE("Without a commit nothing remains of an atomic file") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "file";
  AtomicFile(path, path + ".new").write("text");
  CHECK(files_in(folder) == 0);
}

TEST_CASE("Names of an atomic file may be relative to an open folder, and its mode may be exact") {
  const TemporaryFolder folder;
  const int descriptor = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  REQUIRE(descriptor >= 0);
  const mode_t before = umask(077);
  AtomicFile file("file", "file.new", {.folder = descriptor, .mode = 0664, .durable = true});
  file.write("text");
  CHECK(file.commit());
  umask(before);
  close(descriptor);
  struct stat status {};
  REQUIRE(stat((folder.path() / "file").c_str(), &status) == 0);
  CHECK((status.st_mode & 07777) == 0664);
  CHECK(content(folder.path() / "file") == "text");
}

TEST_CASE("A leftover temporary file is replaced, and a link in its place is not followed") {
  const TemporaryFolder folder;
  const std::string precious = folder.write("precious", "mine");
  const std::string path = folder.path() / "file";
  folder.link("file.new", precious);
  AtomicFile file(path, path + ".new");
  file.write("text");
  CHECK(file.commit());
  CHECK(content(precious) == "mine");
  CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(path)));
  CHECK(files_in(folder) == 2);
}

TEST_CASE("A FIFO in place of the temporary file is replaced, and no reader is waited for") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "file";
  REQUIRE(mkfifo((path + ".new").c_str(), 0666) == 0);
  AtomicFile file(path, path + ".new");
  file.write("text");
  CHECK(file.commit());
  CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(path)));
}

TEST_CASE("An atomic file keeps its first error and removes its temporary file") {
  const TemporaryFolder folder;
  {
    AtomicFile file(folder.path() / "none" / "file", folder.path() / "none" / "file.new");
    CHECK(file.error() == ENOENT);
    file.write("text");
    CHECK_FALSE(file.commit());
    CHECK(file.failed_step() == AtomicFile::Step::create);
    CHECK(file.error() == ENOENT);
  }
  const std::string path = folder.path() / "taken";
  folder.write("taken/file", "");
  {
    AtomicFile file(path, path + ".new");
    file.write("text");
    CHECK_FALSE(file.commit());
    CHECK(file.failed_step() == AtomicFile::Step::rename);
    CHECK(file.error() == EISDIR);
  }
  CHECK(files_in(folder) == 1);
}
