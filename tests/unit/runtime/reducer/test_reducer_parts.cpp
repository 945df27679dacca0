// SPDX-License-Identifier: Apache-2.0
// The parts of the reducer that do not communicate: buckets, the tree over chunks, the choice of a bucket's
// size.
#include <string>
#include <vector>

#include "catch.hpp"
#include "muster/reducer.hpp"
#include "reducer/arithmetic.hpp"
#include "reducer/bucket_size.hpp"
#include "reducer/buckets.hpp"
#include "reducer/chunk_tree.hpp"

using namespace muster;
using namespace muster::detail;

TEST_CASE("buckets are cut from the last parameter on, and are contiguous if their gradients are") {
  std::vector<float> memory(100);
  std::vector<float> elsewhere(10);
  auto const at = [&](std::size_t begin, std::size_t count) {
    return std::as_writable_bytes(std::span(memory).subspan(begin, count));
  };
  std::vector<std::span<std::byte>> const gradients{
      at(0, 10), at(10, 20), std::as_writable_bytes(std::span(elsewhere)), at(30, 5), at(35, 0), at(35, 40)};
  auto const buckets = make_buckets(gradients, 36 * sizeof(float), sizeof(float));
  REQUIRE(buckets.size() == 2);
  CHECK(buckets[0].first == 5);
  CHECK(buckets[0].count == 40);
  CHECK(buckets[0].memory.data() == at(35, 40).data());
  CHECK(buckets[0].memory.size() == 40 * sizeof(float));
  CHECK(buckets[1].first == 0);
  CHECK(buckets[1].last == 5);
  CHECK(buckets[1].count == 45);
  CHECK(buckets[1].memory.empty());
  auto const all = make_buckets(std::span(gradients).first(2), 1u << 20, sizeof(float));
  REQUIRE(all.size() == 1);
  CHECK(all[0].memory.data() == at(0, 30).data());
  // The empty gradient shares a bucket with the parameter before it.
  CHECK(make_buckets(gradients, 1, sizeof(float)).size() == 5);
  // Contiguous, but in another order.
  std::vector<std::span<std::byte>> const turned{at(10, 20), at(0, 10)};
  CHECK(make_buckets(turned, 1u << 20, sizeof(float))[0].memory.empty());

  auto const arithmetic = make_host_arithmetic();
  std::vector<float> together(45);
  for (std::size_t i = 0; i < 10; ++i) elsewhere[i] = 100 + static_cast<float>(i);
  for (std::size_t i = 0; i < 100; ++i) memory[i] = static_cast<float>(i);
  flatten(buckets[1], gradients, *arithmetic, together.data());
  CHECK(together[29] == 29);
  CHECK(together[30] == 100);
  CHECK(together[40] == 30);
  for (auto& value : together) value = -value;
  unflatten(buckets[1], gradients, *arithmetic, together.data());
  CHECK(elsewhere[9] == -109);
  CHECK(memory[34] == -34);
  CHECK(memory[35] == 35);
}

namespace {

// The sum of a subtree as text, by the definition of the tree.
std::string tree_text(int level, std::uint64_t index, std::uint64_t total) {
  if (level == 0) return std::to_string(index);
  auto const left = tree_text(level - 1, 2 * index, total);
  if ((2 * index + 1) << (level - 1) >= total) return left;
  return "(" + left + "+" + tree_text(level - 1, 2 * index + 1, total) + ")";
}

// The same sum, by the additions that ChunkTree returns.
struct Adder {
  explicit Adder(std::uint64_t total) : tree(total) {}
  void push(TreeNode node, const std::string& sum) {
    auto const step = tree.push(node);
    REQUIRE(step.slot == slots.size());
    slots.push_back(sum);
    for (std::size_t i = 0; i < step.additions; ++i) {
      auto const right = slots.back();
      slots.pop_back();
      slots.back() = "(" + slots.back() + "+" + right + ")";
    }
  }
  ChunkTree tree;
  std::vector<std::string> slots;
};

}  // namespace

TEST_CASE("the tree over chunks is the same for any number of ranks") {
  for (std::uint64_t total = 1; total <= 40; ++total) {
    int height = 0;
    while (std::uint64_t{1} << height < total) ++height;
    auto const expected = tree_text(height, 0, total);
    for (int ranks = 1; ranks <= 13; ++ranks) {
      Adder across(total);
      for (int rank = 0; rank < ranks; ++rank) {
        auto const range = share_of(total, rank, ranks);
        Adder local(total);
        for (auto chunk = range.begin; chunk < range.end; ++chunk)
          local.push({0, chunk}, std::to_string(chunk));
        REQUIRE(local.tree.nodes() == across.tree.cover(range));
        REQUIRE(local.slots.size() == local.tree.nodes().size());
        // If the shares are equal and powers of two, the traffic is that of a ring all-reduce.
        if (total % static_cast<std::uint64_t>(ranks) == 0 && (range.count() & (range.count() - 1)) == 0)
          REQUIRE(local.slots.size() == 1);
        for (std::size_t i = 0; i < local.slots.size(); ++i)
          across.push(local.tree.nodes()[i], local.slots[i]);
      }
      INFO(total << " chunks on " << ranks << " ranks");
      REQUIRE(across.slots == std::vector<std::string>{expected});
    }
  }
}

TEST_CASE("the memory of the deterministic mode is known in advance") {
  std::vector<std::size_t> const sizes{10, 20, 30};
  ReducerOptions options{.bucket_bytes = 30 * sizeof(float), .chunks = 8};
  auto const floats = [&](int rank, int ranks) {
    return Reducer::memory_bytes(sizes, options, rank, ranks) / sizeof(float);
  };
  CHECK(floats(0, 1) == 3 * 60);           // chunks 0-3, 4-5 and 6 are stored at the same time
  CHECK(floats(0, 2) == 2 * 60 + 2 * 30);  // and both ranks' sums of a bucket, twice
  options.chunks = 3;
  CHECK(floats(1, 2) == 60 + 2 * 30 * 1);  // rank 1 has one chunk, rank 0 the sum of two
  options.bucket_bytes = 1;                // one bucket for each parameter
  CHECK(floats(0, 2) == 60 + 2 * 30);
  options.chunks = 0;
  CHECK(floats(0, 2) == 0);
}

TEST_CASE("the size of a bucket follows latency and bandwidth") {
  auto const speed = fit_link_speed(4096, 20e-6 + 4096 / 1e9, 4 << 20, 20e-6 + (4 << 20) / 1e9);
  CHECK(speed.latency == Approx(20e-6));
  CHECK(speed.bandwidth == Approx(1e9));
  // latency * bandwidth is 20 kB; with 2 GB of gradients sqrt(2e4 * 2e9).
  CHECK(optimal_bucket_bytes(speed, 2'000'000'000) == Approx(6'324'555).epsilon(1e-3));
  CHECK(optimal_bucket_bytes(speed, 10'000) == 10'000);
  CHECK(optimal_bucket_bytes(speed, 20'000) == 20'000);
  // A disturbed measurement, in which the large size was faster.
  auto const odd = fit_link_speed(4096, 1e-3, 4 << 20, 1e-4);
  CHECK(odd.latency > 0);
  CHECK(optimal_bucket_bytes(odd, 1 << 20) == 1 << 20);

  std::vector<std::size_t> sizes;
  auto const measured =
      measure_link_speed([&](std::size_t bytes) { sizes.push_back(bytes); }, [](double) { return 1e-3; });
  CHECK(sizes.front() == 4096);
  CHECK(sizes.back() == max_measured_bytes);
  CHECK(measured.latency > 0);

  // A network of 1 MB/s with 2 ms of latency: 4 MiB would take 4 s.
  sizes.clear();
  auto const slow =
      measure_link_speed([&](std::size_t bytes) { sizes.push_back(bytes); },
                         [&](double) { return 2e-3 + static_cast<double>(sizes.back()) / 1e6; });
  CHECK(sizes.back() == 32768);
  CHECK(slow.bandwidth == Approx(1e6));
  CHECK(slow.latency == Approx(2e-3));
}
