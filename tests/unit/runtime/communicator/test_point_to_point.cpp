// SPDX-License-Identifier: Apache-2.0
// Messages between ranks, and grouped calls, on as many ranks as the launcher started.
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "catch.hpp"
#include "reference.hpp"
#include "runtime/scenarios/world.hpp"

using namespace muster;
using namespace reference;

TEST_CASE("messages pass around the ring") {
  auto world = tested_world();
  if (world.size() == 1) return;
  int const next = (world.rank() + 1) % world.size();
  int const previous = (world.rank() + world.size() - 1) % world.size();
  for (std::size_t count : {std::size_t{1}, std::size_t{300000}}) {
    auto const mine = numbers<std::int32_t>(world.rank(), count);
    std::vector<std::int32_t> theirs(count);
    // Rank 0 sends first, so that the ring cannot deadlock, however little MPI buffers.
    if (world.rank() == 0) world.send(std::span<const std::int32_t>(mine), next);
    world.recv(std::span<std::int32_t>(theirs), previous);
    if (world.rank() != 0) world.send(std::span<const std::int32_t>(mine), next);
    REQUIRE(same_bits(theirs, numbers<std::int32_t>(previous, count)));
  }
  world.barrier();
}

TEST_CASE("messages without elements take their place among the others") {
  auto world = tested_world();
  if (world.size() == 1) return;
  int const next = (world.rank() + 1) % world.size();
  int const previous = (world.rank() + world.size() - 1) % world.size();
  std::vector<std::int32_t> const nothing;
  std::vector<std::int32_t> nowhere;
  std::int32_t const mine = world.rank();
  std::int32_t single = -1, grouped = -1;
  if (world.rank() == 0) {
    world.send(nothing, next);
    world.send(mine, next);
  } else if (world.rank() == 1) {
    world.recv(nowhere, previous);
    world.recv(single, previous);
    CHECK(single == previous);
  }
  world.grouped([&] {
    world.send(nothing, next);
    world.send(mine, next);
    world.recv(nowhere, previous);
    world.recv(grouped, previous);
  });
  CHECK(grouped == previous);
  world.barrier();
}

TEST_CASE("grouped messages cannot deadlock, and collectives may be anywhere among them") {
  auto world = tested_world();
  if (world.size() == 1) return;
  int const next = (world.rank() + 1) % world.size();
  int const previous = (world.rank() + world.size() - 1) % world.size();
  std::size_t const count = 1u << 20;  // more than MPI sends before the receive is posted
  auto const mine = numbers<std::int32_t>(world.rank(), count);
  std::vector<std::int32_t> theirs(count);
  std::vector<std::int32_t> sum{world.rank()};
  std::vector<float> from_last(3, static_cast<float>(world.rank()));
  world.grouped([&] {
    if (world.rank() == 0) world.send(std::span<const std::int32_t>(mine), next);
    world.all_reduce(std::span<std::int32_t>(sum));
    world.broadcast(std::span<float>(from_last), world.size() - 1);
    if (world.rank() != 0) world.send(std::span<const std::int32_t>(mine), next);
    world.recv(std::span<std::int32_t>(theirs), previous);
    REQUIRE(sum[0] == world.rank());  // nothing runs before the end
  });
  REQUIRE(same_bits(theirs, numbers<std::int32_t>(previous, count)));
  REQUIRE(sum[0] == world.size() * (world.size() - 1) / 2);
  REQUIRE(from_last == std::vector<float>(3, static_cast<float>(world.size() - 1)));
  world.grouped([] {});
  world.barrier();
}

TEST_CASE("a group that throws issues nothing, and the communicator still works") {
  auto world = tested_world();
  std::vector<std::int32_t> one{1};
  if (world.size() > 1) {
    REQUIRE_THROWS_AS(world.grouped([&] {
      world.all_reduce(std::span<std::int32_t>(one));
      world.send(std::span<const std::int32_t>(one), (world.rank() + 1) % world.size());
      throw std::runtime_error("on every rank");
    }),
                      std::runtime_error);
    REQUIRE(one[0] == 1);
  }
  world.all_reduce(std::span<std::int32_t>(one));
  REQUIRE(one[0] == world.size());
  world.grouped([&] {
    REQUIRE_THROWS_AS(world.barrier(), Error);
    REQUIRE_THROWS_AS(world.split(0), Error);
    REQUIRE_THROWS_AS(world.synchronize(), Error);
    REQUIRE_THROWS_AS(world.grouped([] {}), Error);
  });
  world.barrier();
}

TEST_CASE("messages between two ranks do not change the other ranks' operation counts") {
  auto world = tested_world();
  std::vector<std::int32_t> buffer{7};
  if (world.size() > 1 && world.rank() == 0) world.send(std::span<const std::int32_t>(buffer), 1);
  if (world.rank() == 1) world.recv(std::span<std::int32_t>(buffer), 0);
  auto part = world.split(world.rank() % 2);
  part.barrier();
  world.barrier();
  auto again = world.split(0);
  again.all_reduce(std::span<std::int32_t>(buffer));
  REQUIRE(buffer[0] == 7 * world.size());
}
