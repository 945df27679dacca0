// SPDX-License-Identifier: Apache-2.0
#include "strategies/pipeline/divide_ranks.hpp"

#include <algorithm>
#include <cstddef>
#include <map>

namespace muster::pipeline {

std::vector<std::vector<int>> divide_ranks(const std::vector<int>& hosts, int length) {
  std::map<int, std::vector<int>> on_host;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    on_host[hosts[rank]].push_back(static_cast<int>(rank));
  std::vector<std::vector<int>> pipelines;
  const auto append = [&](const std::vector<int>& ranks) {
    auto from = ranks.begin();
    for (; ranks.end() - from >= length; from += length) pipelines.emplace_back(from, from + length);
    return std::vector<int>(from, ranks.end());
  };
  std::vector<int> left;
  for (const auto& [host, ranks] : on_host) {
    const std::vector<int> rest = append(ranks);
    left.insert(left.end(), rest.begin(), rest.end());
  }
  append(left);
  std::sort(pipelines.begin(), pipelines.end());  // by their first ranks
  return pipelines;
}

}  // namespace muster::pipeline
