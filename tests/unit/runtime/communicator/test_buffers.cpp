// SPDX-License-Identifier: Apache-2.0
// What a program may pass to an operation, on as many ranks as the launcher started.
// refused_buffer.cpp has what does not compile.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "catch.hpp"
#include "runtime/scenarios/world.hpp"

using namespace muster;

TEST_CASE("an operation takes a vector, an array, a C array, a variable, or a span of them") {
  auto world = tested_world();
  auto const ranks = static_cast<float>(world.size());
  std::vector<float> vector{1, 2};
  std::array<double, 2> array{1, 2};
  std::int32_t plain[2] = {1, 2};
  float loss = 3;
  long long samples = 4;
  world.all_reduce(vector);
  world.all_reduce(array);
  world.all_reduce(plain);
  world.all_reduce(loss);
  world.all_reduce(samples, Reduction::max);
  CHECK(vector == std::vector<float>{ranks, 2 * ranks});
  CHECK(array == std::array<double, 2>{static_cast<double>(ranks), 2.0 * static_cast<double>(ranks)});
  CHECK(plain[1] == 2 * world.size());
  CHECK(loss == 3 * ranks);
  CHECK(samples == 4);
  world.all_reduce(std::span(vector).first(1), Reduction::average);
  CHECK(vector == std::vector<float>{ranks, 2 * ranks});
}

TEST_CASE("two buffers may be of different kinds, and what is only read may be const") {
  auto world = tested_world();
  auto const ranks = static_cast<std::size_t>(world.size());
  std::int32_t const mine = world.rank() + 1;
  std::vector<std::int32_t> all(ranks);
  world.all_gather(mine, all);
  for (int r = 0; r < world.size(); ++r) CHECK(all[static_cast<std::size_t>(r)] == r + 1);
  std::int32_t sum = 0;
  world.reduce_scatter(all, sum);
  CHECK(sum == world.size() * mine);
  std::vector<std::int32_t> turned(ranks);
  world.all_to_all(all, turned);
  CHECK(turned == std::vector<std::int32_t>(ranks, mine));
  const auto& read = all;
  std::vector<std::int32_t> total(ranks);
  world.all_reduce(read, total, Reduction::max);
  CHECK(total == all);
  std::vector<std::size_t> const counts(ranks, 1);
  std::array<std::int32_t, 1> const one{mine};
  world.all_gather_v(one, turned, counts);
  CHECK(turned == all);
}

TEST_CASE("variables are broadcast, reduced, sent and received") {
  auto world = tested_world();
  double value = world.rank() == 0 ? 0.5 : 0;
  world.broadcast(value, 0);
  CHECK(value == 0.5);
  world.reduce(value, 0);
  CHECK(value == (world.rank() == 0 ? 0.5 * world.size() : 0.5));
  if (world.size() == 1) return;
  std::uint64_t const sent = 7;
  std::uint64_t received = 0;
  if (world.rank() == 0) world.send(sent, 1);
  if (world.rank() == 1) world.recv(received, 0);
  CHECK(received == (world.rank() == 1 ? 7 : 0));
}
