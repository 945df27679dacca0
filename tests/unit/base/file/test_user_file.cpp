// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "catch.hpp"
#include "content.hpp"
#include "file/user_file.hpp"
#include "file/write_all.hpp"
#include "temporary_folder.hpp"

using muster::open_user_file;

namespace {

std::string refusal(const std::string& path, int flags = O_WRONLY) {
  std::string why;
  CHECK_FALSE(open_user_file(path, flags, why).valid());
  return why;
}

}  // namespace

TEST_CASE("An own file is created, or opened as it is") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "file";
  std::string why;
  for (const char* text : {"one ", "two"}) {
    const auto file = open_user_file(path, O_WRONLY | O_APPEND, why);
    REQUIRE(file.valid());
    CHECK(muster::write_all(file.number(), text));
  }
  CHECK(content(path) == "one two");
  CHECK(why.empty());
}

TEST_CASE("A symbolic link is not followed, whether it leads to a file or to nothing") {
  const TemporaryFolder folder;
  const std::string target = folder.write("target", "kept"), path = folder.path() / "link";
  std::filesystem::create_symlink(target, path);
  CHECK(refusal(path, O_WRONLY | O_TRUNC) == "it is a symbolic link");
  CHECK(content(target) == "kept");
  std::filesystem::remove(target);
  CHECK(refusal(path) == "it is a symbolic link");
  CHECK_FALSE(std::filesystem::exists(target));
}

TEST_CASE("A FIFO, a device or a folder is refused at once") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "fifo";
  REQUIRE(mkfifo(path.c_str(), 0666) == 0);
  CHECK(refusal(path, O_WRONLY) == "it is not a regular file");
  CHECK(refusal(path, O_RDWR) == "it is not a regular file");
  CHECK(refusal("/dev/null") == "it is not a regular file");
  CHECK(refusal(folder.path()) == "Is a directory");
}

TEST_CASE("Another user's file is refused") {
  if (geteuid() != 0) {
    WARN("not tested: only root can make a file of another user");
    return;
  }
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "theirs");
  REQUIRE(chown(path.c_str(), 65534, 65534) == 0);
  CHECK(refusal(path) == "it belongs to user 65534: remove it, or choose another folder");
  CHECK(content(path) == "theirs");
}
