// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "catch.hpp"
#include "shared_memory/shared_segment.hpp"

using muster::SharedSegment;

namespace {

const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

/// Which pages of the segment have memory.
std::vector<bool> resident_pages(const SharedSegment& segment) {
  std::vector<unsigned char> found((segment.bytes() + page - 1) / page);
  REQUIRE(mincore(segment.data(), segment.bytes(), found.data()) == 0);
  std::vector<bool> resident;
  for (const unsigned char byte : found) resident.push_back((byte & 1) != 0);
  return resident;
}

}  // namespace

TEST_CASE("another process sees what is written, and a handle of another segment is refused") {
  const std::size_t bytes = 3 * page;
  const auto segment = SharedSegment::create(bytes);
  const auto other = SharedSegment::create(bytes);
  REQUIRE(segment);
  REQUIRE(other);
  segment->data()[page] = std::byte{7};
  const pid_t owner = getpid(), child = fork();
  if (child == 0) {
    const auto opened = SharedSegment::open(owner, segment->handle(), bytes);
    if (!opened || opened->data()[page] != std::byte{7}) _exit(1);
    opened->data()[0] = std::byte{9};
    auto wrong = segment->handle();
    wrong.inode = other->handle().inode;
    if (SharedSegment::open(owner, wrong, bytes) || errno != ENOENT) _exit(2);
    if (SharedSegment::open(owner, segment->handle(), bytes + page)) _exit(3);
    _exit(0);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(segment->data()[0] == std::byte{9});
}

TEST_CASE("parts that lie side by side are reserved page by page, each page once") {
  const auto segment = SharedSegment::create(4 * page + 100);
  REQUIRE(segment);
  CHECK(resident_pages(*segment) == std::vector<bool>{false, false, false, false, false});
  CHECK(segment->reserve(64, page));
  CHECK(resident_pages(*segment) == std::vector<bool>{false, true, false, false, false});
  CHECK(segment->reserve(page + 64, 100));  // no page begins here
  CHECK(resident_pages(*segment) == std::vector<bool>{false, true, false, false, false});
  CHECK(segment->reserve(0, 64));
  CHECK(segment->reserve(page + 164, 3 * page - 64));
  CHECK(resident_pages(*segment) == std::vector<bool>{true, true, true, true, true});
  CHECK(std::all_of(segment->data(), segment->data() + segment->bytes(),
                    [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST_CASE("memory that is not there is an error, and no signal") {
  CHECK_FALSE(SharedSegment::create(~std::size_t{0}));
  CHECK(errno == EFBIG);
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const rlimit one_page{page, limit.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &one_page) == 0);
  const auto refused = SharedSegment::create(2 * page);
  const int error = errno;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  CHECK_FALSE(refused);
  CHECK(error == EFBIG);

  const auto segment = SharedSegment::create(2 * page);
  REQUIRE(segment);
  REQUIRE(ftruncate(segment->handle().descriptor, 0) == 0);  // as if the kernel had no page left
  CHECK_FALSE(segment->reserve(0, 2 * page));
}
