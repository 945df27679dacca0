// SPDX-License-Identifier: Apache-2.0
// Properties of place() on generated and on real machines.
#include <algorithm>
#include <filesystem>

#include "catch.hpp"
#include "placement/topology/read.hpp"
#include "spank/placement/machines.hpp"
#include "spank/placement/properties.hpp"

using namespace muster::placement;
using namespace muster::placement::test;

namespace {

/// Requests of every kind for one machine: all of it, few cores, cores on one domain only, threads.
void check_requests(const Node& node, unsigned seeds) {
  for (unsigned seed = 0; seed < seeds; ++seed) {
    std::mt19937 random(seed);
    const Request request = random_request(node, random);
    INFO("request " << seed);
    const Placement placement = place(node, request);
    check_properties(node, request, placement);
    const Node other = shuffled(node, random);
    REQUIRE(as_text(other, place(other, shuffled(request, random))) == as_text(node, placement));
  }
}

}  // namespace

TEST_CASE("On generated machines, every answer keeps the guarantees for any order of enumeration") {
  int kinds[4] = {};
  for (unsigned seed = 0; seed < 1500; ++seed) {
    std::mt19937 random(seed);
    const Node node = random_node(random);
    const Request request = random_request(node, random);
    INFO("seed " << seed);
    const Placement placement = place(node, request);
    check_properties(node, request, placement);
    const Node other = shuffled(node, random);
    REQUIRE(as_text(other, place(other, shuffled(request, random))) == as_text(node, placement));
    for (const auto& task : placement.tasks)
      ++kinds[task.gpu_cpu == Distance::node ? 0 : task.gpu_cpu == Distance::sys ? 1 : 2];
    kinds[3] += request.tasks > 1 && placement.tasks[0].gpus.size() == 1 &&
                placement.tasks[1].gpus.size() == 1 &&
                placement.tasks[0].gpus[0].pci == placement.tasks[1].gpus[0].pci;
  }
  for (const int count : kinds) CHECK(count > 50);  // the generator covers all cases
}

TEST_CASE("On real machines, every answer keeps the guarantees for any order of enumeration") {
  const auto folder = real_topologies();
  if (!folder) return;
  int files = 0;
  for (const char* kind : {"hwloc", "nccl"}) {
    for (const auto& entry : std::filesystem::directory_iterator(*folder / kind)) {
      if (entry.path().extension() != ".xml") continue;
      INFO(entry.path());
      check_requests(read_topology_file(entry.path().string()), 25);
      ++files;
    }
  }
  CHECK(files >= 14);
}
