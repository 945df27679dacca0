// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "catch.hpp"
#include "communicator/host/core_yield.hpp"

using namespace muster::detail;

namespace {

/// Moves the calling thread to the first core that it may use.
void use_first_core() {
  cpu_set_t allowed, first;
  REQUIRE(::sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  CPU_ZERO(&first);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed)) ++cpu;
  CPU_SET(cpu, &first);
  REQUIRE(::sched_setaffinity(0, sizeof first, &first) == 0);
}

/// How often the calling thread has slept.
long count_sleeps() {
  rusage usage{};
  REQUIRE(::getrusage(RUSAGE_THREAD, &usage) == 0);
  return usage.ru_nvcsw;
}

}  // namespace

TEST_CASE("a wait sleeps between its polls where another thread computes on the core") {
  long sleeps = 0;
  std::thread waiting([&] {
    use_first_core();
    std::atomic<bool> done{false};
    std::thread computing([&] {  // on the same core
      while (!done) {
      }
    });
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const long before = count_sleeps();
    CoreYield core;
    while (sleeps < 100 && std::chrono::steady_clock::now() < limit) {
      core.yield();
      sleeps = count_sleeps() - before;
    }
    done = true;
    computing.join();
  });
  waiting.join();
  CHECK(sleeps >= 100);
}
