// SPDX-License-Identifier: Apache-2.0
#include "data/sampler.hpp"

#include <cmath>
#include <set>
#include <vector>

#include "catch.hpp"
#include "data/philox.hpp"
#include "muster/error.hpp"

using namespace muster::data;

TEST_CASE("Philox gives the published numbers", "[sampler]") {
  // Known answers of Random123 (kat_vectors, philox4x32, 10 rounds).
  CHECK(philox({0, 0, 0, 0}, {0, 0}) ==
        std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
        std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("normal numbers have mean 0 and deviation 1", "[sampler]") {
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

TEST_CASE("shares cover everything once and differ by at most one", "[sampler]") {
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

TEST_CASE("an epoch takes every window once, in another order each time", "[sampler]") {
  for (const std::uint64_t bytes : {65ull, 66ull, 130ull, 200ull, 4096ull, 100000ull}) {
    const Sampler sampler(bytes, 64, 42);
    const std::uint64_t windows = sampler.windows_per_epoch();
    CAPTURE(bytes, windows);
    CHECK(windows * 64 + 2 * 64 > bytes - 1);  // at most two windows' worth is left out
    std::vector<std::uint64_t> orders[2];
    for (const std::uint64_t epoch : {0ull, 1ull}) {
      std::set<std::uint64_t> starts;
      for (std::uint64_t i = 0; i < windows; ++i) {
        const std::uint64_t start = sampler.start(epoch * windows + i);
        CHECK(start + 64 + 1 <= bytes);
        starts.insert(start);
        orders[epoch].push_back(start);
      }
      CHECK(starts.size() == windows);
      std::uint64_t previous = *starts.begin();
      for (const std::uint64_t start : starts) {
        CHECK((start - previous) % 64 == 0);  // side by side: no byte is a training target twice
        previous = start;
      }
    }
    if (windows > 10) CHECK(orders[0] != orders[1]);
  }
}

TEST_CASE("the global batch is the same for any number of ranks", "[sampler]") {
  const Sampler sampler(50000, 64, 7), same(50000, 64, 7), other(50000, 64, 8);
  const int batch = 13;
  bool seed_matters = false;
  for (std::uint64_t step = 0; step < 150; ++step) {  // crosses an epoch: 780 windows
    std::vector<std::uint64_t> whole;
    for (std::uint64_t i = 0; i < batch; ++i) whole.push_back(same.start(step * batch + i));
    seed_matters |= other.start(step * batch) != whole[0];
    for (int ranks = 1; ranks <= batch; ++ranks) {
      std::vector<std::uint64_t> joined;
      for (int rank = 0; rank < ranks; ++rank) {
        const Share share = share_of(batch, rank, ranks);
        for (std::uint64_t i = share.begin; i < share.end; ++i)
          joined.push_back(sampler.start(step * batch + i));
      }
      REQUIRE(joined == whole);
    }
  }
  CHECK(seed_matters);
}

TEST_CASE("a text shorter than one sample is refused", "[sampler]") {
  CHECK_NOTHROW(Sampler(65, 64, 1));
  CHECK_THROWS_AS(Sampler(64, 64, 1), muster::Error);
  CHECK_THROWS_AS(Sampler(0, 64, 1), muster::Error);
}
