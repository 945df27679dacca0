// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>
#include <unistd.h>

#include "catch.hpp"
#include "transport/fd_limit.hpp"

using namespace muster::control;

namespace {

class SoftLimit {
 public:
  explicit SoftLimit(rlim_t files) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    rlimit const now{files, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &now) == 0);
  }
  ~SoftLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("free descriptors are those that can be opened, up to the most that the caller needs") {
  SoftLimit const limit(64);
  auto const free = free_descriptors(100);
  CHECK(free_descriptors(3) == 3);
  std::size_t opened = 0;
  int descriptors[64];
  while (opened < 64 && (descriptors[opened] = ::dup(0)) >= 0) ++opened;
  auto const left = free_descriptors(100);
  for (std::size_t i = 0; i < opened; ++i) ::close(descriptors[i]);
  // UndefinedBehaviorSanitizer needs descriptors for its checks.
  CHECK(opened == free);
  CHECK(left == 0);
}
