// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "background_thread.hpp"
#include "catch.hpp"
#include "soon.hpp"

using muster::run_in_background;

namespace {

// The thread that runs one piece of work, which `until` may hold.
std::thread::id run_one(std::shared_future<void> until = {}) {
  auto const id = std::make_shared<std::promise<std::thread::id>>();
  run_in_background(
      [id, until = std::move(until)] {
        id->set_value(std::this_thread::get_id());
        if (until.valid()) until.wait();
      },
      [] {});
  return id->get_future().get();
}

}  // namespace

TEST_CASE("work runs side by side, on threads other than the caller's") {
  std::promise<void> go_on;
  auto const until = go_on.get_future().share();
  auto const first = run_one(until);
  auto const second = run_one(until);  // returns although the first still runs
  CHECK(first != second);
  CHECK(first != std::this_thread::get_id());
  go_on.set_value();
}

TEST_CASE("each call finds the thread of the one before it idle") {
  auto const run = [] {
    auto id = std::make_shared<std::promise<std::thread::id>>();
    auto const done = std::make_shared<std::thread::id>();
    run_in_background([done] { *done = std::this_thread::get_id(); }, [id, done] { id->set_value(*done); });
    return id->get_future().get();
  };
  int same = 0;
  std::thread::id last;
  for (int i = 0; i < 1000; ++i) same += std::exchange(last, run()) == last ? 1 : 0;
  CHECK(same > 900);  // on a busy machine it may have ended
}

TEST_CASE("what the work owns is destroyed when it ends") {
  auto const owned = std::make_shared<int>(1);
  run_in_background([owned] {}, [] {});
  auto const end = std::chrono::steady_clock::now() + soon;
  while (owned.use_count() > 1 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  CHECK(owned.use_count() == 1);
}

#ifndef __SANITIZE_THREAD__  // it refuses threads in such a child
TEST_CASE("after fork(), work runs in the child, too") {
  run_one();  // its thread may wait for work now
  pid_t const child = fork();
  if (child == 0) {
    alarm(60);
    run_one();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}
#endif
