// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <vector>

#include "catch.hpp"
#include "data/sample_windows.hpp"
#include "muster/error.hpp"

using namespace muster;
using muster::data::SampleWindows;

TEST_CASE("each epoch uses every window once, in another order", "[windows]") {
  for (const std::uint64_t bytes : {65ull, 66ull, 130ull, 200ull, 4096ull, 100000ull}) {
    const SampleWindows all(bytes, 64, 42);
    const std::uint64_t windows = all.per_epoch();
    CAPTURE(bytes, windows);
    CHECK(windows * 64 + 2 * 64 > bytes - 1);  // at most two windows' bytes are unused
    std::vector<std::uint64_t> orders[2];
    for (const std::uint64_t epoch : {0ull, 1ull}) {
      std::set<std::uint64_t> starts;
      for (std::uint64_t i = 0; i < windows; ++i) {
        const std::uint64_t start = all.start(epoch * windows + i);
        CHECK(start + 64 + 1 <= bytes);
        starts.insert(start);
        orders[epoch].push_back(start);
      }
      CHECK(starts.size() == windows);
      std::uint64_t previous = *starts.begin();
      for (const std::uint64_t start : starts) {
        CHECK((start - previous) % 64 == 0);  // adjacent: no byte is a training target twice
        previous = start;
      }
    }
    if (windows > 10) CHECK(orders[0] != orders[1]);
  }
}

TEST_CASE("the windows' offset changes each epoch and takes any value below the context", "[windows]") {
  const SampleWindows all(100000, 64, 42);
  std::set<std::uint64_t> offsets;
  for (std::uint64_t epoch = 0; epoch < 200; ++epoch) offsets.insert(all.start(epoch * all.per_epoch()) % 64);
  CHECK(offsets.size() > 50);  // 200 draws of 64 miss some three
}

TEST_CASE("the global batch is the same for any number of ranks", "[windows]") {
  const SampleWindows all(50000, 64, 7), same(50000, 64, 7), other(50000, 64, 8);
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
        for (std::uint64_t i = share.begin; i < share.end; ++i) joined.push_back(all.start(step * batch + i));
      }
      REQUIRE(joined == whole);
    }
  }
  CHECK(seed_matters);
}

TEST_CASE("a text shorter than one sample is refused", "[windows]") {
  CHECK_NOTHROW(SampleWindows(65, 64, 1));
  CHECK_THROWS_AS(SampleWindows(64, 64, 1), muster::Error);
  CHECK_THROWS_AS(SampleWindows(0, 64, 1), muster::Error);
}
