// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "catch.hpp"
#include "muster/error.hpp"
#include "muster/philox.hpp"
#include "muster/sampler.hpp"

using namespace muster;

TEST_CASE("Philox gives the published numbers") {
  // Known answers of Random123 (kat_vectors, philox4x32, 10 rounds).
  CHECK(philox({0, 0, 0, 0}, {0, 0}) ==
        std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("normal numbers have mean 0 and deviation 1") {
  double sum = 0, squares = 0;
  const int count = 100000;
  for (int i = 0; i < count; ++i) {
    const double x = normal(3, 1, static_cast<std::uint64_t>(i));
    sum += x;
    squares += x * x;
  }
  CHECK(sum / count == Approx(0).margin(0.02));
  CHECK(std::sqrt(squares / count) == Approx(1).margin(0.02));
}

TEST_CASE("shares cover everything once and differ by at most one") {
  for (const std::uint64_t total : {0ull, 1ull, 7ull, 12ull, 1000003ull}) {
    for (int size = 1; size <= 9; ++size) {
      std::uint64_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const Share share = share_of(total, rank, size);
        CHECK(share.begin == next);
        CHECK(share.count() >= total / static_cast<std::uint64_t>(size));
        CHECK(share.count() <= total / static_cast<std::uint64_t>(size) + 1);
        next = share.end;
      }
      CHECK(next == total);
    }
  }
}

TEST_CASE("a permutation has every number once, whatever the count, seed and epoch") {
  for (const std::uint64_t count : {1ull, 2ull, 3ull, 4ull, 5ull, 16ull, 17ull, 1000ull, 4097ull}) {
    for (const std::uint64_t seed : {0ull, 42ull, ~0ull}) {
      const Permutation order(count, seed);
      for (const std::uint64_t epoch : {0ull, 1ull, 1ull << 40}) {
        std::vector<bool> seen(count);
        for (std::uint64_t i = 0; i < count; ++i) {
          const auto at = order.at(epoch, i);
          REQUIRE(at < count);
          REQUIRE(!seen[at]);
          seen[at] = true;
        }
      }
    }
  }
  CHECK_THROWS_AS(Permutation(0, 1), Error);
  CHECK_THROWS_AS(Permutation((1ull << 62) + 1, 1), Error);
  CHECK(Permutation(1ull << 62, 1).at(0, 5) < 1ull << 62);
}

TEST_CASE("a shuffled order spreads neighbours over the whole data set") {
  // In a random order the mean distance of neighbours is about a third of the length.
  const std::uint64_t count = 10000;
  const Permutation order(count, 3);
  double distance = 0, fixed = 0;
  for (std::uint64_t i = 0; i + 1 < count; ++i) {
    distance += std::abs(static_cast<double>(order.at(0, i)) - static_cast<double>(order.at(0, i + 1)));
    fixed += order.at(0, i) == i;
  }
  CHECK(distance / count == Approx(count / 3.0).epsilon(0.03));
  CHECK(fixed < 10);
}

namespace {

// The samples that the ranks of a world take in one epoch, batch by batch, and in rank order within a batch.
std::vector<std::uint64_t> collect_epoch(std::uint64_t samples, int size, std::uint64_t batch,
                                         SamplerPosition& position, std::size_t batches = ~std::size_t{0}) {
  std::vector<Sampler> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.emplace_back(samples, rank, size, position);
  std::vector<std::uint64_t> taken;
  const auto epoch = position.epoch;
  for (std::size_t i = 0; i < batches && position.epoch == epoch && position.offset < samples; ++i) {
    for (auto& rank : ranks) {
      const auto part = rank.next(batch);
      CHECK(part.begin == position);
      CHECK(part.global == std::min(batch, samples - position.offset));
      taken.insert(taken.end(), part.samples.begin(), part.samples.end());
    }
    position = ranks.front().position();
    for (const auto& rank : ranks) CHECK(rank.position() == position);
  }
  return taken;
}

}  // namespace

TEST_CASE("every sample goes to one rank once an epoch, and the batches do not depend on the ranks") {
  for (const std::uint64_t samples : {1ull, 7ull, 64ull, 1001ull}) {
    for (const std::uint64_t batch : {1ull, 5ull, 64ull, 2000ull}) {
      std::vector<std::uint64_t> alone;
      for (int size = 1; size <= 9; ++size) {
        SamplerPosition position{5, 2, 0};
        auto const taken = collect_epoch(samples, size, batch, position);
        if (size == 1) alone = taken;
        REQUIRE(taken == alone);
      }
      std::sort(alone.begin(), alone.end());
      std::vector<std::uint64_t> all(samples);
      std::iota(all.begin(), all.end(), 0);
      REQUIRE(alone == all);
    }
  }
}

TEST_CASE("a sampler resumes with another number of ranks, in the middle of an epoch and at its end") {
  SamplerPosition position{11, 0, 0};
  auto taken = collect_epoch(100, 4, 6, position, 7);
  CHECK(position == SamplerPosition{11, 0, 42});
  auto const rest = collect_epoch(100, 3, 6, position);
  CHECK(position == SamplerPosition{11, 0, 100});
  taken.insert(taken.end(), rest.begin(), rest.end());
  SamplerPosition again{11, 0, 0};
  CHECK(taken == collect_epoch(100, 1, 6, again));
  Sampler sampler(100, 0, 1, position);
  CHECK(sampler.completed_epochs() == 1);
  CHECK(sampler.next(6).begin == SamplerPosition{11, 1, 0});
  CHECK(sampler.completed_epochs() == 1);
}

TEST_CASE("a sampler without shuffling keeps the order of the data, and rejects invalid arguments") {
  Sampler sampler(5, 1, 2, {}, false);
  CHECK(sampler.next(5).samples == std::vector<std::uint64_t>{3, 4});
  CHECK_THROWS_AS(Sampler(0, 0, 1), Error);
  CHECK_THROWS_AS(Sampler(5, 2, 2), Error);
  CHECK_THROWS_AS(Sampler(5, 0, 1, {0, 0, 6}), Error);
  CHECK_THROWS_AS(sampler.next(0), Error);
}
