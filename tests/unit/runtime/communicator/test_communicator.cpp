// SPDX-License-Identifier: Apache-2.0
// Split, threads and invalid arguments of host communicators, on as many ranks as the launcher started.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "runtime/scenarios/errors.hpp"
#include "runtime/scenarios/world.hpp"

using namespace muster;

TEST_CASE("split orders ranks by key, then by rank, and the parts work independently") {
  auto world = tested_world();
  auto half_world = world.split(world.rank() % 2, -world.rank());
  int const expected_size = (world.size() + (world.rank() % 2 == 0 ? 1 : 0)) / 2;
  REQUIRE(half_world.size() == expected_size);
  std::vector<std::int32_t> const mine{world.rank()};
  std::vector<std::int32_t> all(static_cast<std::size_t>(half_world.size()));
  half_world.all_gather(std::span<const std::int32_t>(mine), std::span<std::int32_t>(all));
  for (std::size_t i = 1; i < all.size(); ++i) REQUIRE(all[i - 1] > all[i]);
  for (auto rank : all) REQUIRE(rank % 2 == world.rank() % 2);
  auto again = half_world.split(0);
  REQUIRE(again.rank() == half_world.rank());
  again.barrier();
  auto single = world.split(world.rank());
  REQUIRE(single.size() == 1);
  std::vector<float> one{3.0f};
  single.all_reduce(std::span<float>(one));
  REQUIRE(one[0] == 3.0f);
}

TEST_CASE("two threads work at the same time, each on a communicator of its own") {
  auto world = tested_world();
  auto other = world.split(0);
  bool right = true;
  std::thread second([&] {
    std::vector<float> values(30000);
    for (int i = 0; i < 100; ++i) {
      std::fill(values.begin(), values.end(), 2.0f);
      other.all_reduce(std::span<float>(values));
      right = right && values.back() == 2.0f * static_cast<float>(other.size());
    }
  });
  std::vector<std::int32_t> one(1);
  for (int i = 0; i < 300; ++i) {
    one[0] = i;
    world.all_reduce(std::span<std::int32_t>(one));
    if (one[0] != i * world.size()) break;
  }
  auto part = world.split(0);
  part.barrier();
  second.join();
  REQUIRE(one[0] == 299 * world.size());
  REQUIRE(right);
}

TEST_CASE("empty buffers are accepted, and bad arguments are rejected before anything is sent") {
  auto world = tested_world();
  std::vector<float> nothing, nowhere;
  std::vector<std::size_t> const zeros(static_cast<std::size_t>(world.size()));
  world.all_reduce(nothing);
  world.all_reduce(nothing, premul_sum(2));
  world.reduce(nothing, 0);
  world.broadcast(nothing, 0);
  world.all_gather(nothing, nowhere);
  world.all_gather_v(nothing, nowhere, zeros);
  world.reduce_scatter(nothing, nowhere);
  world.reduce_scatter_v(nothing, nowhere, zeros);
  world.all_to_all(nothing, nowhere);
  world.all_to_all_v(nothing, nowhere, zeros, zeros);
  world.grouped([&] { world.all_reduce(nothing); });
  world.all_reduce_async(nothing).wait();
  std::vector<float> three(3);
  std::vector<float> wrong(static_cast<std::size_t>(world.size()) * 3 + 1);
  REQUIRE(catch_error_code([&] { world.broadcast(std::span<float>(three), world.size()); }) ==
          ErrorCode::usage);
  REQUIRE(catch_error_code([&] { world.broadcast(std::span<float>(three), -1); }) == ErrorCode::usage);
  REQUIRE(catch_error_code([&] { world.send(std::span<const float>(three), world.rank()); }) ==
          ErrorCode::usage);
  REQUIRE(catch_error_code([&] {
            world.all_gather(std::span<const float>(three), std::span<float>(wrong));
          }) == ErrorCode::usage);
  REQUIRE(catch_error_code([&] { world.split(-1); }) == ErrorCode::usage);
  REQUIRE(catch_error_code([&] { world.reduce(std::span<float>(three), world.size()); }) == ErrorCode::usage);
  std::vector<float> two(2);
  REQUIRE(catch_error_code([&] { world.all_reduce(std::span<const float>(two), std::span<float>(three)); }) ==
          ErrorCode::usage);
  auto const overlapping = [&] {
    std::span<float> const whole(wrong);
    world.all_reduce(std::span<const float>(whole.first(2)), whole.subspan(1, 2));
  };
  REQUIRE(catch_error_code(overlapping) == ErrorCode::usage);
  REQUIRE(catch_error_code([&] {
            world.all_to_all(std::span<const float>(wrong), std::span<float>(three));
          }) == ErrorCode::usage);
  REQUIRE(catch_error_code([&] {
            world.all_to_all(std::span<const float>(three), std::span<float>(three));
          }) == ErrorCode::usage);
  std::vector<std::int32_t> integers(3);
  REQUIRE(catch_error_code([&] { world.all_reduce(integers, premul_sum(2)); }) == ErrorCode::usage);
  auto const gather = [&](std::vector<std::size_t> counts) {
    world.all_gather_v(std::span<const float>(three), std::span<float>(wrong),
                       std::span<const std::size_t>(counts));
  };
  auto const ranks = static_cast<std::size_t>(world.size());
  REQUIRE(catch_error_code([&] { gather(std::vector<std::size_t>(ranks, 3)); }) == ErrorCode::usage);
  REQUIRE(catch_error_code([&] { gather(std::vector<std::size_t>(ranks, 2)); }) == ErrorCode::usage);
  REQUIRE(catch_error_code([&] { gather(std::vector<std::size_t>(ranks + 1, 3)); }) == ErrorCode::usage);
  std::vector<std::size_t> const threes(ranks, 3), fours(ranks, 4), too_many(ranks + 1, 3);
  std::vector<float> whole(3 * ranks);
  std::vector<float> longer(4 * ranks);
  auto const scatter = [&](const std::vector<std::size_t>& counts) {
    return catch_error_code([&] { world.reduce_scatter_v(whole, three, counts); });
  };
  REQUIRE(scatter(fours) == ErrorCode::usage);
  REQUIRE(scatter(too_many) == ErrorCode::usage);
  auto const exchange = [&](std::vector<float>& out, const std::vector<std::size_t>& sent,
                            const std::vector<std::size_t>& received) {
    return catch_error_code([&] { world.all_to_all_v(whole, out, sent, received); });
  };
  REQUIRE(exchange(longer, threes, threes) == ErrorCode::usage);
  REQUIRE(exchange(longer, fours, fours) == ErrorCode::usage);
  REQUIRE(exchange(longer, threes, fours) == ErrorCode::usage);  // this rank's own slices differ
  REQUIRE(exchange(whole, threes, threes) == ErrorCode::usage);  // the same memory
  world.barrier();
}

// Open MPI writes to connections that another rank has closed.
TEST_CASE("SIGPIPE does not end a rank of Open MPI") {
  auto world = tested_world();
  if (world.backend() != std::string("open-mpi")) return;
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  ::close(ends[0]);
  CHECK(::write(ends[1], "x", 1) == -1);
  CHECK(errno == EPIPE);
  ::close(ends[1]);
}
