// SPDX-License-Identifier: Apache-2.0
// NCCL's collectives and messages of every type and reduction, against plain references.
#include <cmath>
#include <numeric>

#include "catch.hpp"
#include "on_gpu.hpp"
#include "runtime/communicator/reference.hpp"
#include "runtime/scenarios/world.hpp"

using namespace muster;
using namespace reference;
using one_gpu::check;
using one_gpu::OnGpu;

namespace {

// NCCL multiplies 16-bit floats by 1/n before it adds; the plain reference divides once at the end.
template <typename T>
bool close_numbers(const std::vector<T>& a, const std::vector<T>& b) {
  constexpr bool narrow = std::is_same_v<T, bfloat16> || std::is_same_v<T, half>;
  double const tolerance = narrow ? 0.05 : std::is_floating_point_v<T> ? 1e-5 : 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::abs(as_double(a[i]) - as_double(b[i])) > tolerance) return false;
  }
  return a.size() == b.size();
}

}  // namespace

TEMPLATE_TEST_CASE("NCCL's reductions equal a plain reference", "", float, double, bfloat16, half,
                   std::int8_t, std::uint8_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t) {
  using T = TestType;
  auto world = job().world();
  auto const ranks = static_cast<std::size_t>(world.size());
  for (Reduction op : all_reductions) {
    for (std::size_t count : {std::size_t{1}, std::size_t{70001}}) {
      INFO("count " << count << ", reduction " << static_cast<int>(op));
      auto const own = operands<T>(world.rank(), count, op);
      auto const expected = reduced<T>(world.size(), count, op);
      auto const as_expected = [&](const std::vector<T>& got) {
        return op == Reduction::average ? close_numbers(got, expected) : same_numbers(got, expected);
      };
      OnGpu<T> buffer(own);
      world.all_reduce(buffer.span(), op, buffer.stream());
      REQUIRE(as_expected(buffer.values(world)));
      OnGpu<T> const in(own);
      OnGpu<T> out(count);
      check(cudaStreamSynchronize(in.stream()));
      world.all_reduce(in.view(), out.span(), op, out.stream());
      REQUIRE(as_expected(out.values(world)));
      int const root = static_cast<int>(count) % world.size();
      OnGpu<T> at_root(own);
      world.reduce(at_root.span(), root, op, at_root.stream());
      auto const there = at_root.values(world);
      REQUIRE((world.rank() == root ? as_expected(there) : same_bits(there, own)));

      OnGpu<T> const all(operands<T>(world.rank(), count * ranks, op));
      OnGpu<T> mine(count);
      check(cudaStreamSynchronize(all.stream()));
      world.reduce_scatter(all.view(), mine.span(), op, mine.stream());
      auto const whole = reduced<T>(world.size(), count * ranks, op);
      auto const begin = whole.begin() + static_cast<std::ptrdiff_t>(count) * world.rank();
      std::vector<T> const part(begin, begin + static_cast<std::ptrdiff_t>(count));
      auto const scattered = mine.values(world);
      REQUIRE((op == Reduction::average ? close_numbers(scattered, part) : same_numbers(scattered, part)));
    }
  }
}

TEMPLATE_TEST_CASE("NCCL's copies keep every bit", "", float, double, bfloat16, half, std::int8_t,
                   std::uint8_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t) {
  using T = TestType;
  auto world = job().world();
  std::size_t const count = 300001;
  for (int root = 0; root < world.size(); ++root) {
    OnGpu<T> buffer(numbers<T>(world.rank(), count));
    world.broadcast(buffer.span(), root, buffer.stream());
    REQUIRE(same_bits(buffer.values(world), numbers<T>(root, count)));
  }
  OnGpu<T> const mine(numbers<T>(world.rank(), count));
  OnGpu<T> all(count * static_cast<std::size_t>(world.size()));
  check(cudaStreamSynchronize(mine.stream()));
  world.all_gather(mine.view(), all.span(), all.stream());
  auto const got = all.values(world);
  for (int r = 0; r < world.size(); ++r) {
    auto const begin = got.begin() + static_cast<std::ptrdiff_t>(count) * r;
    REQUIRE(
        same_bits(std::vector<T>(begin, begin + static_cast<std::ptrdiff_t>(count)), numbers<T>(r, count)));
  }
}

TEMPLATE_TEST_CASE("NCCL gathers shares of different lengths and exchanges slices", "", float, double,
                   bfloat16, half, std::int8_t, std::uint8_t, std::int32_t, std::uint32_t, std::int64_t,
                   std::uint64_t) {
  using T = TestType;
  auto world = job().world();
  std::vector<std::size_t> counts;
  std::vector<T> expected;
  for (int r = 0; r < world.size(); ++r) {
    counts.push_back(static_cast<std::size_t>((r + 1) % 3) * 5001);
    auto const part = numbers<T>(r, counts.back());
    expected.insert(expected.end(), part.begin(), part.end());
  }
  auto const own = counts[static_cast<std::size_t>(world.rank())];
  OnGpu<T> const mine(numbers<T>(world.rank(), own));
  OnGpu<T> all(expected.size());
  check(cudaStreamSynchronize(mine.stream()));
  world.all_gather_v(mine.view(), all.span(), std::span<const std::size_t>(counts), all.stream());
  REQUIRE(same_bits(all.values(world), expected));

  std::size_t const slice = 3001;
  auto const whole = slice * static_cast<std::size_t>(world.size());
  OnGpu<T> const in(numbers<T>(world.rank(), whole));
  OnGpu<T> out(whole);
  check(cudaStreamSynchronize(in.stream()));
  world.all_to_all(in.view(), out.span(), out.stream());
  std::vector<T> slices;
  for (int r = 0; r < world.size(); ++r) {
    auto const theirs = numbers<T>(r, whole);
    auto const begin = theirs.begin() + static_cast<std::ptrdiff_t>(slice) * world.rank();
    slices.insert(slices.end(), begin, begin + static_cast<std::ptrdiff_t>(slice));
  }
  REQUIRE(same_bits(out.values(world), slices));
}

TEMPLATE_TEST_CASE("NCCL multiplies each rank's input by its own factor before it adds", "", float, double,
                   bfloat16, half) {
  using T = TestType;
  auto world = job().world();
  OnGpu<T> buffer(numbers<T>(world.rank(), 70001));
  world.all_reduce(buffer.span(), premul_sum(1 + world.rank()), buffer.stream());
  REQUIRE(same_numbers(buffer.values(world), premul_summed<T>(world.size(), 70001)));
}

TEMPLATE_TEST_CASE("NCCL scatters reduced shares, and exchanges slices, of different lengths", "", float,
                   bfloat16, std::int64_t) {
  using T = TestType;
  auto world = job().world();
  auto const ranks = static_cast<std::size_t>(world.size());
  std::vector<std::size_t> counts;
  for (std::size_t r = 0; r < ranks; ++r) counts.push_back((r + 1) % 3 * 5001);
  auto const total = std::reduce(counts.begin(), counts.end());
  auto const begin = std::reduce(counts.begin(), counts.begin() + world.rank());
  auto const own = counts[static_cast<std::size_t>(world.rank())];
  OnGpu<T> const all(numbers<T>(world.rank(), total));
  OnGpu<T> mine(own);
  check(cudaStreamSynchronize(all.stream()));
  world.reduce_scatter_v(all.view(), mine.span(), counts, Reduction::sum, mine.stream());
  auto const whole = reduced<T>(world.size(), total, Reduction::sum);
  auto const share = std::span(whole).subspan(begin, own);
  REQUIRE(same_numbers(mine.values(world), std::vector<T>(share.begin(), share.end())));

  // Each rank sends rank r counts[r] elements, and so gets its own count from every rank.
  std::vector<std::size_t> const recv_counts(ranks, own);
  OnGpu<T> slices(own * ranks);
  world.all_to_all_v(all.view(), slices.span(), counts, recv_counts, slices.stream());
  std::vector<T> expected;
  for (int r = 0; r < world.size(); ++r) {
    auto const theirs = numbers<T>(r, total);
    auto const slice = std::span(theirs).subspan(begin, own);
    expected.insert(expected.end(), slice.begin(), slice.end());
  }
  REQUIRE(same_bits(slices.values(world), expected));
}

TEST_CASE("a Work on a real GPU completes when its operations have") {
  auto world = job().world();
  auto const own = numbers<std::int32_t>(world.rank(), 3'000'000);
  OnGpu<std::int32_t> first(own);
  OnGpu<std::int32_t> second(own);
  auto work = world.all_reduce_async(first.span(), Reduction::sum, first.stream());
  check(cudaStreamSynchronize(second.stream()));
  auto later = world.async([&] { world.all_reduce(second.span(), Reduction::max, first.stream()); });
  later.wait();
  REQUIRE(work.test());
  work.wait();
  REQUIRE(same_bits(first.values(world), reduced<std::int32_t>(world.size(), own.size(), Reduction::sum)));
  REQUIRE(same_bits(second.values(world), reduced<std::int32_t>(world.size(), own.size(), Reduction::max)));
}

TEST_CASE("NCCL's grouped messages work in both directions, with collectives among them") {
  auto world = job().world();
  if (world.size() == 1) return;
  int const next = (world.rank() + 1) % world.size();
  int const previous = (world.rank() + world.size() - 1) % world.size();
  OnGpu<float> const mine(numbers<float>(world.rank(), 300000));
  OnGpu<float> theirs(300000);
  OnGpu<std::int32_t> sum(std::vector<std::int32_t>{world.rank()});
  check(cudaStreamSynchronize(mine.stream()));
  check(cudaStreamSynchronize(sum.stream()));
  world.grouped([&] {
    world.send(mine.view(), next, theirs.stream());
    world.all_reduce(sum.span(), Reduction::sum, theirs.stream());
    world.recv(theirs.span(), previous, theirs.stream());
  });
  REQUIRE(same_bits(theirs.values(world), numbers<float>(previous, 300000)));
  REQUIRE(sum.values(world).at(0) == world.size() * (world.size() - 1) / 2);
}

TEST_CASE("NCCL's messages pass around a ring") {
  auto world = job().world();
  if (world.size() == 1) return;
  int const next = (world.rank() + 1) % world.size();
  int const previous = (world.rank() + world.size() - 1) % world.size();
  OnGpu<float> const mine(numbers<float>(world.rank(), 1000));
  OnGpu<float> theirs(1000);
  check(cudaStreamSynchronize(mine.stream()));
  // One rank sends at a time while the next receives: an enqueued send blocks its stream until it is
  // received.
  if (world.rank() == 0) world.send(mine.view(), next, theirs.stream());
  world.recv(theirs.span(), previous, theirs.stream());
  if (world.rank() != 0) world.send(mine.view(), next, theirs.stream());
  REQUIRE(same_bits(theirs.values(world), numbers<float>(previous, 1000)));
}
