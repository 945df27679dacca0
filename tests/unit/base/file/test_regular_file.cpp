// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "catch.hpp"
#include "file/descriptor.hpp"
#include "file/regular_file.hpp"
#include "temporary_folder.hpp"

using namespace muster;

TEST_CASE("A regular file is read with its status, up to the longest length") {
  const TemporaryFolder folder;
  const std::string bytes("one\0\n", 5);
  const std::string path = folder.write("file", bytes);
  const auto found = read_regular_file(path, 5);
  REQUIRE(found);
  CHECK(found->text == bytes);
  CHECK(found->status.st_size == 5);
  CHECK(found->status.st_uid == geteuid());
  CHECK_FALSE(read_regular_file(path, 4));
  const auto empty = read_regular_file(folder.write("empty", ""), 0);
  REQUIRE(empty);
  CHECK(empty->text.empty());
}

TEST_CASE("What is not a regular file is refused, and a pipe does not block") {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_FALSE(read_regular_file(pipe, 100));
  const Descriptor writer(open(pipe.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(writer.valid());
  CHECK_FALSE(read_regular_file(pipe, 100));  // has a writer, but no bytes
  CHECK_FALSE(read_regular_file(folder / "missing", 100));
  CHECK_FALSE(read_regular_file(folder.path(), 100));
  CHECK_FALSE(read_regular_file("/dev/null", 100));
}

TEST_CASE("A symbolic link is judged by its target") {
  const TemporaryFolder folder;
  folder.write("file", "text");
  folder.link("good", "file");
  folder.link("dangling", "missing");
  folder.link("to-pipe", "pipe");
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const auto found = read_regular_file(folder / "good", 4);
  REQUIRE(found);
  CHECK(found->text == "text");
  CHECK(S_ISREG(found->status.st_mode));
  CHECK_FALSE(read_regular_file(folder / "good", 3));
  CHECK_FALSE(read_regular_file(folder / "dangling", 4));
  CHECK_FALSE(read_regular_file(folder / "to-pipe", 4));
}

TEST_CASE("An open file is read from where it stands and stays open") {
  const TemporaryFolder folder;
  const Descriptor file(open(folder.write("file", "text").c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(file.valid());
  CHECK_FALSE(read_regular_file(file.number(), 3));
  const auto whole = read_regular_file(file.number(), 4);
  REQUIRE(whole);
  CHECK(whole->text == "text");
  REQUIRE(lseek(file.number(), 2, SEEK_SET) == 2);
  const auto rest = read_regular_file(file.number(), 4);
  REQUIRE(rest);
  CHECK(rest->text == "xt");
  CHECK_FALSE(read_regular_file(-1, 4));
}

TEST_CASE("Only the owner writes when the owner is right and neither group nor others may") {
  struct stat status {};
  status.st_uid = 7;
  for (const mode_t mode : {0600, 0644, 0755}) {
    status.st_mode = S_IFREG | mode;
    CHECK(only_owner_writes(status, 7));
    CHECK_FALSE(only_owner_writes(status, 8));
  }
  for (const mode_t mode : {0620, 0602, 0666}) {
    status.st_mode = S_IFREG | mode;
    CHECK_FALSE(only_owner_writes(status, 7));
  }
}
