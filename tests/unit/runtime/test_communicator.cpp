// SPDX-License-Identifier: Apache-2.0
// Every operation, type and reduction of a host communicator against a plain reference, on as many ranks as
// the launcher started.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "reference.hpp"
#include "world.hpp"

using namespace muster;
using namespace reference;

TEMPLATE_TEST_CASE("reductions equal a plain reference", "", float, double, bfloat16, half, std::int8_t,
                   std::uint8_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t) {
  using T = TestType;
  auto world = job().host_world();
  for (Reduction op : all_reductions) {
    for (std::size_t count : {std::size_t{1}, std::size_t{3}, std::size_t{1000}, std::size_t{70001}}) {
      INFO("count " << count << ", reduction " << static_cast<int>(op));
      auto const own = operands<T>(world.rank(), count, op);
      auto const expected = reduced<T>(world.size(), count, op);
      auto buffer = own;
      world.all_reduce(std::span<T>(buffer), op);
      REQUIRE(same_numbers(buffer, expected));
      std::vector<T> elsewhere(count);
      world.all_reduce(std::span<const T>(own), std::span<T>(elsewhere), op);
      REQUIRE(same_numbers(elsewhere, expected));
      int const root = static_cast<int>(count) % world.size();
      buffer = own;
      world.reduce(std::span<T>(buffer), root, op);
      REQUIRE(same_numbers(buffer, world.rank() == root ? expected : own));

      auto const ranks = static_cast<std::size_t>(world.size());
      auto all = operands<T>(world.rank(), count * ranks, op);
      std::vector<T> mine(count);
      world.reduce_scatter(std::span<const T>(all), std::span<T>(mine), op);
      auto const whole = reduced<T>(world.size(), count * ranks, op);
      auto const begin = whole.begin() + static_cast<std::ptrdiff_t>(count) * world.rank();
      REQUIRE(same_numbers(mine, std::vector<T>(begin, begin + static_cast<std::ptrdiff_t>(count))));
      auto const share = std::span<T>(all).subspan(count * static_cast<std::size_t>(world.rank()), count);
      world.reduce_scatter(std::span<const T>(all), share, op);
      REQUIRE(same_bits(std::vector<T>(share.begin(), share.end()), mine));
    }
  }
}

TEMPLATE_TEST_CASE("copies carry every bit", "", float, double, bfloat16, half, std::int8_t, std::uint8_t,
                   std::int32_t, std::uint32_t, std::int64_t, std::uint64_t) {
  using T = TestType;
  auto world = job().host_world();
  for (std::size_t count : {std::size_t{1}, std::size_t{513}, std::size_t{1200000}}) {
    INFO("count " << count);
    for (int root = 0; root < world.size(); ++root) {
      auto buffer = numbers<T>(world.rank(), count);
      world.broadcast(std::span<T>(buffer), root);
      REQUIRE(same_bits(buffer, numbers<T>(root, count)));
    }
    auto const mine = numbers<T>(world.rank(), count);
    std::vector<T> all(count * static_cast<std::size_t>(world.size()));
    world.all_gather(std::span<const T>(mine), std::span<T>(all));
    std::vector<T> expected;
    for (int r = 0; r < world.size(); ++r) {
      auto const part = numbers<T>(r, count);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    REQUIRE(same_bits(all, expected));
    auto const share = std::span<T>(all).subspan(count * static_cast<std::size_t>(world.rank()), count);
    world.all_gather(std::span<const T>(share), std::span<T>(all));
    REQUIRE(same_bits(all, expected));
  }
}

TEMPLATE_TEST_CASE("shares of different lengths are gathered, some of them empty", "", float, bfloat16,
                   std::uint8_t, std::int64_t) {
  using T = TestType;
  auto world = job().host_world();
  for (std::size_t unit : {std::size_t{1}, std::size_t{40000}}) {
    std::vector<std::size_t> counts;
    std::vector<T> expected;
    for (int r = 0; r < world.size(); ++r) {
      counts.push_back(static_cast<std::size_t>((r + 1) % 3) * unit);
      auto const part = numbers<T>(r, counts.back());
      expected.insert(expected.end(), part.begin(), part.end());
    }
    auto const own = static_cast<std::size_t>(world.rank());
    auto const mine = numbers<T>(world.rank(), counts[own]);
    std::vector<T> all(expected.size());
    world.all_gather_v(std::span<const T>(mine), std::span<T>(all), std::span<const std::size_t>(counts));
    REQUIRE(same_bits(all, expected));
    auto const begin = std::accumulate(counts.begin(), counts.begin() + world.rank(), std::size_t{0});
    auto const share = std::span<T>(all).subspan(begin, counts[own]);
    world.all_gather_v(std::span<const T>(share), std::span<T>(all), std::span<const std::size_t>(counts));
    REQUIRE(same_bits(all, expected));
  }
}

TEMPLATE_TEST_CASE("every rank's slices reach every rank", "", float, half, std::int8_t, double) {
  using T = TestType;
  auto world = job().host_world();
  auto const ranks = static_cast<std::size_t>(world.size());
  for (std::size_t count : {std::size_t{1}, std::size_t{77}, std::size_t{300000}}) {
    auto const in = numbers<T>(world.rank(), count * ranks);
    std::vector<T> out(in.size());
    world.all_to_all(std::span<const T>(in), std::span<T>(out));
    std::vector<T> expected;
    for (int r = 0; r < world.size(); ++r) {
      auto const theirs = numbers<T>(r, count * ranks);
      auto const begin = theirs.begin() + static_cast<std::ptrdiff_t>(count) * world.rank();
      expected.insert(expected.end(), begin, begin + static_cast<std::ptrdiff_t>(count));
    }
    REQUIRE(same_bits(out, expected));
  }
}

TEST_CASE("a long all-reduce, in several pieces, is the same on every rank to the bit") {
  auto world = job().host_world();
  std::size_t const count = 3 * (1u << 20) + 5;
  std::mt19937 random(static_cast<unsigned>(world.rank()));
  std::normal_distribution<float> normal;
  std::vector<float> buffer(count);
  for (auto& value : buffer) value = normal(random);
  world.all_reduce(std::span<float>(buffer), Reduction::average);
  auto of_zero = buffer;
  world.broadcast(std::span<float>(of_zero), 0);
  REQUIRE(same_bits(buffer, of_zero));

  std::vector<double> sum(count, 0.0);
  for (int r = 0; r < world.size(); ++r) {
    std::mt19937 theirs(static_cast<unsigned>(r));
    std::normal_distribution<float> draw;
    for (auto& value : sum) value += static_cast<double>(draw(theirs));
  }
  double worst = 0;
  for (std::size_t i = 0; i < count; ++i)
    worst = std::max(worst, std::abs(static_cast<double>(buffer[i]) - sum[i] / world.size()));
  REQUIRE(worst < 1e-6);
}

TEST_CASE("16-bit floats round once per step") {
  auto world = job().host_world();
  // 256 + 1 is no bfloat16: it rounds to 256 at each addition, in whatever order.
  std::vector<bfloat16> buffer(10, world.rank() == 0 ? bfloat16(256.0f) : bfloat16(0.0f));
  world.all_reduce(std::span<bfloat16>(buffer));
  for (auto value : buffer) REQUIRE(static_cast<float>(value) == 256.0f);
  std::vector<half> infinite(3, half(65504.0f));
  world.all_reduce(std::span<half>(infinite));
  if (world.size() > 1) REQUIRE(std::isinf(static_cast<float>(infinite[0])));
}

TEST_CASE("messages go round the ring") {
  auto world = job().host_world();
  if (world.size() == 1) return;
  int const next = (world.rank() + 1) % world.size();
  int const previous = (world.rank() + world.size() - 1) % world.size();
  for (std::size_t count : {std::size_t{1}, std::size_t{300000}}) {
    auto const mine = numbers<std::int32_t>(world.rank(), count);
    std::vector<std::int32_t> theirs(count);
    // Rank 0 sends first, so that the ring cannot lock however little MPI buffers.
    if (world.rank() == 0) world.send(std::span<const std::int32_t>(mine), next);
    world.recv(std::span<std::int32_t>(theirs), previous);
    if (world.rank() != 0) world.send(std::span<const std::int32_t>(mine), next);
    REQUIRE(same_bits(theirs, numbers<std::int32_t>(previous, count)));
  }
  world.barrier();
}

TEST_CASE("grouped messages cannot lock each other, and collectives stand among them anywhere") {
  auto world = job().host_world();
  if (world.size() == 1) return;
  int const next = (world.rank() + 1) % world.size();
  int const previous = (world.rank() + world.size() - 1) % world.size();
  std::size_t const count = 1u << 20;  // more than MPI takes without the receiver
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

TEST_CASE("a group that is left by an exception issues nothing and the communicator works on") {
  auto world = job().host_world();
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

TEST_CASE("messages between two ranks leave the others' count of operations as it is") {
  auto world = job().host_world();
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

TEST_CASE("the node's ranks and those across nodes have communicators of their own") {
  auto const world = job().world();
  auto node = job().node();
  REQUIRE(node.rank() == job().local_rank());
  REQUIRE(node.size() == job().local_size());
  auto across = job().across_nodes();
  REQUIRE(across.rank() == job().host_index());
  REQUIRE(across.size() <= job().host_count());
  std::vector<std::int32_t> sum{1};
  node.all_reduce(std::span<std::int32_t>(sum));
  across.all_reduce(std::span<std::int32_t>(sum));
  REQUIRE(sum.at(0) == world.size());  // the same number of ranks on each host
  REQUIRE(job().node().size() == node.size());
}

TEST_CASE("the phases of the join are timed") {
  job().host_world();
  const auto& timings = job().timings();
  REQUIRE(timings.bootstrap.count() > 0);
  REQUIRE(timings.exchange.count() > 0);
  REQUIRE((timings.plane.count() > 0) == (job().size() > 1));
  REQUIRE(timings.join >= timings.bootstrap + timings.gpu + timings.exchange + timings.plane);
  REQUIRE(timings.host_world.count() > 0);
}

TEST_CASE("split orders by key, then rank, and the parts work by themselves") {
  auto world = job().host_world();
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
  auto world = job().host_world();
  auto other = world.split(0);
  bool right = true;
  std::thread beside([&] {
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
  beside.join();
  REQUIRE(one[0] == 299 * world.size());
  REQUIRE(right);
}

TEST_CASE("empty buffers are fine, bad arguments are refused before anything is sent") {
  auto world = job().host_world();
  std::vector<float> nothing;
  world.all_reduce(std::span<float>(nothing));
  std::vector<float> three(3);
  std::vector<float> wrong(static_cast<std::size_t>(world.size()) * 3 + 1);
  auto const fault_of = [](auto call) {
    try {
      call();
    } catch (const Error& error) {
      return error.fault();
    }
    return Fault::system;
  };
  REQUIRE(fault_of([&] { world.broadcast(std::span<float>(three), world.size()); }) == Fault::usage);
  REQUIRE(fault_of([&] { world.broadcast(std::span<float>(three), -1); }) == Fault::usage);
  REQUIRE(fault_of([&] { world.send(std::span<const float>(three), world.rank()); }) == Fault::usage);
  REQUIRE(fault_of([&] { world.all_gather(std::span<const float>(three), std::span<float>(wrong)); }) ==
          Fault::usage);
  REQUIRE(fault_of([&] { world.split(-1); }) == Fault::usage);
  REQUIRE(fault_of([&] { world.reduce(std::span<float>(three), world.size()); }) == Fault::usage);
  std::vector<float> two(2);
  REQUIRE(fault_of([&] { world.all_reduce(std::span<const float>(two), std::span<float>(three)); }) ==
          Fault::usage);
  auto const overlapping = [&] {
    std::span<float> const whole(wrong);
    world.all_reduce(std::span<const float>(whole.first(2)), whole.subspan(1, 2));
  };
  REQUIRE(fault_of(overlapping) == Fault::usage);
  REQUIRE(fault_of([&] { world.all_to_all(std::span<const float>(wrong), std::span<float>(three)); }) ==
          Fault::usage);
  REQUIRE(fault_of([&] { world.all_to_all(std::span<const float>(three), std::span<float>(three)); }) ==
          Fault::usage);
  auto const gather = [&](std::vector<std::size_t> counts) {
    world.all_gather_v(std::span<const float>(three), std::span<float>(wrong),
                       std::span<const std::size_t>(counts));
  };
  auto const ranks = static_cast<std::size_t>(world.size());
  REQUIRE(fault_of([&] { gather(std::vector<std::size_t>(ranks, 3)); }) == Fault::usage);
  REQUIRE(fault_of([&] { gather(std::vector<std::size_t>(ranks, 2)); }) == Fault::usage);
  REQUIRE(fault_of([&] { gather(std::vector<std::size_t>(ranks + 1, 3)); }) == Fault::usage);
  world.barrier();
}

TEST_CASE("the roster is the same everywhere and its ranks are seated by host") {
  auto& here = job();
  REQUIRE(static_cast<int>(here.roster().size()) == here.size());
  std::string text;
  for (const auto& hello : here.roster())
    text += hello.host + hello.boot_id + hello.cpus + std::to_string(hello.pid) + ";";
  auto const hash = static_cast<std::uint64_t>(std::hash<std::string>{}(text));
  std::vector<std::uint64_t> low{hash};
  std::vector<std::uint64_t> high{hash};
  auto world = here.host_world();
  world.all_reduce(std::span<std::uint64_t>(low), Reduction::min);
  world.all_reduce(std::span<std::uint64_t>(high), Reduction::max);
  REQUIRE(low[0] == high[0]);
  REQUIRE(here.local_rank() < here.local_size());
  REQUIRE(here.host_index() < here.host_count());
  here.barrier("roster test");
}
