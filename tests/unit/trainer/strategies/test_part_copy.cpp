// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <vector>

#include "catch.hpp"
#include "strategies/data_parallel/part_copy.hpp"

using namespace muster;

TEST_CASE("with equally many ranks on each host, a copy is on the next host at the same place") {
  CHECK(copied_ranks(std::vector<int>{0, 0, 1, 1, 2, 2}) == std::vector<int>{4, 5, 0, 1, 2, 3});
  CHECK(copied_ranks(std::vector<int>{0, 1, 0, 1}) == std::vector<int>{1, 0, 3, 2});
}

TEST_CASE("on one host, the next rank has the copy") {
  CHECK(copied_ranks(std::vector<int>{0, 0, 0}) == std::vector<int>{2, 0, 1});
}

TEST_CASE("each rank copies one other, on another host unless one host has more than half of the ranks") {
  for (unsigned pattern = 0; pattern < 6561; ++pattern) {  // 8 ranks on up to 3 hosts
    std::vector<int> hosts;
    for (unsigned rest = pattern; hosts.size() < 8; rest /= 3) hosts.push_back(static_cast<int>(rest % 3));
    const std::vector<int> copied = copied_ranks(hosts);
    std::vector<int> sorted = copied;
    std::sort(sorted.begin(), sorted.end());
    std::ptrdiff_t largest = 0;
    for (const int host : hosts) largest = std::max(largest, std::count(hosts.begin(), hosts.end(), host));
    bool fine = true;
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      const auto of = static_cast<std::size_t>(copied[rank]);
      fine = fine && sorted[rank] == static_cast<int>(rank) && of != rank;
      if (largest <= 4) fine = fine && hosts[of] != hosts[rank];
    }
    CHECK(fine);
  }
}
