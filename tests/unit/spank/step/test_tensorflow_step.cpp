// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "catch.hpp"
#include "has.hpp"
#include "memory_limit.hpp"
#include "step/tensorflow_step.hpp"

using namespace muster::spank;

TEST_CASE("Every rank has its node and the port of its local rank") {
  const TensorflowStep step = tensorflow_step({{"n0", "n1"}, {{0, 2}, {1}}, ""}, 3, {10004, 10005});
  CHECK(step.cluster == R"({"worker":["n0:10004","n1:10004","n0:10005"]})");
  CHECK(step.missing.empty());
}

TEST_CASE("When a step has no TF_CONFIG, the reason is returned") {
  CHECK(tensorflow_step({{"n0"}, {}, "nobody knows"}, 2, {10004}).missing == "nobody knows");
  CHECK(tensorflow_step({{"n0"}, {{0, 1}}, ""}, 2, {10004}).missing ==
        "n0 has more tasks than the 1 ports for them");
  RankLayout large;
  for (int rank = 0; rank < 10000; ++rank) {
    large.hosts.push_back("node" + std::to_string(rank));
    large.ranks.push_back({rank});
  }
  CHECK(has(tensorflow_step(large, 10000, {10004}).missing, "128 KiB"));
}

// The number of ranks comes from the environment, which users can forge, so it alone must cost no memory.
TEST_CASE("When a step's layout is not known, its number of ranks costs no memory") {
  constexpr int ranks = std::numeric_limits<int>::max();
  const test::MemoryLimit limit(std::size_t{64} << 20);
  CHECK(tensorflow_step({{"n0"}, {}, "nobody knows"}, ranks, {10004}).missing == "nobody knows");
  CHECK(has(lay_out({"n0", "2147483647", "", "", ranks, ""}, {0}).unknown, "more than"));
}
