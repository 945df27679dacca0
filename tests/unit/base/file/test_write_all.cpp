// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <thread>

#include "catch.hpp"
#include "content.hpp"
#include "file/descriptor.hpp"
#include "file/write_all.hpp"
#include "temporary_folder.hpp"

using muster::Descriptor;
using muster::write_all;

TEST_CASE("All bytes are written, also NULs and none at all") {
  const TemporaryFolder folder;
  const std::string path = folder / "file", bytes("a\0b", 3);
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(file.valid());
  CHECK(write_all(file.number(), bytes));
  CHECK(write_all(file.number(), ""));
  CHECK(write_all(file.number(), "c"));
  CHECK(content(path) == bytes + "c");
}

TEST_CASE("More bytes than a pipe holds are written while another thread reads them") {
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  std::string read_bytes;
  std::thread reader([&] {
    char part[1000];
    for (ssize_t got = 0; (got = read(from.number(), part, sizeof part)) > 0;)
      read_bytes.append(part, static_cast<std::size_t>(got));
  });
  const std::string bytes(1 << 20, 'x');
  const bool good = write_all(to.number(), bytes);
  to.reset();
  reader.join();
  CHECK(good);
  CHECK(read_bytes == bytes);
}

TEST_CASE("A write that fails returns false with its errno") {
  CHECK_FALSE(write_all(-1, "x"));
  CHECK(errno == EBADF);
  const Descriptor full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  REQUIRE(full.valid());
  CHECK_FALSE(write_all(full.number(), "x"));
  CHECK(errno == ENOSPC);
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
  Descriptor from(ends[0]);
  const Descriptor to(ends[1]);
  CHECK_FALSE(write_all(to.number(), std::string(1 << 20, 'x')));  // nobody reads
  CHECK(errno == EAGAIN);
  from.reset();
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const bool good = write_all(to.number(), "x");
  const int error = errno;
  std::signal(SIGPIPE, before);
  CHECK_FALSE(good);
  CHECK(error == EPIPE);
}
