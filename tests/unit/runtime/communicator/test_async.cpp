// SPDX-License-Identifier: Apache-2.0
// Asynchronous operations, on as many ranks as the launcher started.
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "runtime/scenarios/errors.hpp"
#include "runtime/scenarios/world.hpp"

using namespace muster;

TEST_CASE("asynchronous operations run in the order of their calls, whatever is waited for first") {
  auto world = tested_world();
  std::vector<std::vector<std::int32_t>> buffers(20);
  std::vector<Work> works;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    buffers[i].assign(1 + 1000 * i, static_cast<std::int32_t>(i) + 1);
    works.push_back(world.all_reduce_async(buffers[i]));
  }
  for (std::size_t i = buffers.size(); i-- > 0;) {
    works[i].wait();
    CHECK(buffers[i].back() == (static_cast<std::int32_t>(i) + 1) * world.size());
    CHECK(works[i].test());
    works[i].wait();  // again
  }
}

TEST_CASE("a call that is not asynchronous comes after those that are") {
  auto world = tested_world();
  std::vector<double> first(30000, 1);
  double second = 1;
  auto work = world.all_reduce_async(first);
  world.all_reduce(second);
  CHECK(work.test());
  CHECK(first.back() == world.size());
  CHECK(second == world.size());
  work = world.all_reduce_async(second, Reduction::max);
  auto part = world.split(world.rank() % 2);
  CHECK(work.test());
  part.barrier();
  work = world.all_reduce_async(first, Reduction::average);
  world.synchronize();
  CHECK(work.test());
}

TEST_CASE("any operations can be started together, messages among them") {
  auto world = tested_world();
  auto const ranks = static_cast<std::size_t>(world.size());
  std::int32_t const mine = world.rank();
  std::int32_t last = world.rank();
  std::int32_t from_previous = 0;
  std::vector<std::int32_t> all(ranks);
  int const next = (world.rank() + 1) % world.size();
  int const previous = (world.rank() + world.size() - 1) % world.size();
  auto work = world.async([&] {
    world.all_gather(mine, all);
    world.broadcast(last, world.size() - 1);
    if (world.size() == 1) return;
    world.send(mine, next);
    world.recv(from_previous, previous);
  });
  work.wait();
  for (std::size_t r = 0; r < ranks; ++r) CHECK(all[r] == static_cast<std::int32_t>(r));
  CHECK(last == world.size() - 1);
  if (world.size() > 1) CHECK(from_previous == previous);
  world.async([] {}).wait();
}

TEST_CASE("a Work that nobody waits for waits at its end, and before another takes its place") {
  auto world = tested_world();
  std::vector<float> values(50000, 1);
  { auto const work = world.all_reduce_async(values); }
  CHECK(values.back() == static_cast<float>(world.size()));
  Work work;
  CHECK(work.test());
  work.wait();
  std::vector<float> others(50000, 1);
  work = world.all_reduce_async(others);
  work = Work();
  CHECK(others.back() == static_cast<float>(world.size()));
}

TEST_CASE(
    "the call returns before the other ranks make it; test() does not wait for them, and wait_for() not for "
    "long") {
  auto world = tested_world();
  std::int32_t value = 1;
  if (world.rank() == 0) {
    auto work = world.all_reduce_async(value);
    if (world.size() > 1) {
      CHECK_FALSE(work.test());
      CHECK_FALSE(work.wait_for(std::chrono::milliseconds{20}));
    }
    job().barrier("rank 0 has started");
    CHECK(work.wait_for(std::chrono::minutes{1}));
    CHECK(work.wait_for(std::chrono::milliseconds{0}));
    CHECK(work.test());
  } else {
    job().barrier("rank 0 has started");
    world.all_reduce(value);
  }
  CHECK(value == world.size());
}

TEST_CASE("invalid arguments of an asynchronous call are found by the call") {
  auto world = tested_world();
  std::vector<float> values(3), longer(4);
  CHECK(catch_error_code([&] { world.async([&] { world.broadcast(values, world.size()); }); }) ==
        ErrorCode::usage);
  CHECK(catch_error_code([&] { world.async([&] { world.all_reduce(values, longer); }); }) ==
        ErrorCode::usage);
  CHECK(catch_error_code([&] { world.async([&] { world.barrier(); }); }) == ErrorCode::usage);
  world.all_reduce_async(values).wait();
}
