// SPDX-License-Identifier: Apache-2.0
// Synthetic topology files, each for a kind of machine or export that Muster once handled wrongly.
#include "catch.hpp"
#include "placement/topology/error.hpp"
#include "placement/topology/read.hpp"
#include "spank/placement/machines.hpp"
#include "spank/placement/properties.hpp"
#include "temporary_folder.hpp"

using muster::CpuSet;
using namespace muster::placement;
using namespace muster::placement::test;
using Catch::Matchers::ContainsSubstring;

namespace {

Node fixture(const std::string& name) {
  return read_topology_file(MUSTER_FIXTURES "/" + name + ".hwloc.xml");
}

Placement checked_placement(const Node& node) {
  Request request;
  request.gpus = addresses(node);
  request.tasks = static_cast<int>(request.gpus.size());
  const auto placement = place(node, request);
  check_properties(node, request, placement);
  return placement;
}

}  // namespace

TEST_CASE(
    "A GPU attached to a package of several domains is near to each, and restrictions of the exporting "
    "process are ignored") {
  const Node node = fixture("split-package");
  CHECK(node.cpus().to_list() == "0-15");  // allowed were 0-1,8-9
  REQUIRE(node.gpus.size() == 2);
  CHECK(node.gpus[0].domain == 0);
  CHECK(node.gpus[0].near_domains.empty());
  CHECK(node.gpus[1].domain == -1);
  CHECK(node.gpus[1].near_domains == std::vector<int>{2, 3});
  const auto placement = checked_placement(node);
  CHECK(placement.tasks[1].cpus.to_list() == "4-5");
  CHECK(placement.tasks[1].gpu_cpu == Distance::node);
  CHECK(placement.tasks[1].nics.at(0).name == "mlx5_1");
  CHECK(placement.tasks[1].gpu_nic == Distance::node);
}

TEST_CASE("On a node with 36 domains, memory comes from the processors' four domains") {
  const Node node = fixture("four-superchips");
  REQUIRE(node.domains.size() == 36);
  const auto placement = checked_placement(node);
  REQUIRE(placement.tasks.size() == 4);
  for (int rank = 0; rank < 4; ++rank) {
    const auto& task = placement.tasks[static_cast<std::size_t>(rank)];
    CHECK(task.memory == std::vector<int>{rank});
    CHECK(task.cpus == CpuSet{4 * rank, 4 * rank + 1, 4 * rank + 2, 4 * rank + 3});
    CHECK(task.gpu_cpu == Distance::node);
    CHECK(task.nics.at(0).name == "mlx5_" + std::to_string(rank));
    CHECK(task.gpu_nic == Distance::node);
  }
  Request request;  // two GPUs to a task: both processors' memory, and nothing else
  request.gpus = addresses(node);
  request.tasks = 2;
  CHECK(place(node, request).tasks[1].memory == std::vector<int>{2, 3});
}

TEST_CASE("A domain hidden from the exporting process has cores, but its memory is not used") {
  const Node node = fixture("hidden-domain");
  REQUIRE(node.domains.size() == 2);
  CHECK(node.domains[0].cpus.to_list() == "0-1");
  CHECK(node.domains[0].memory_bytes == 0u);
  CHECK_FALSE(node.domains[1].memory_bytes.has_value());  // the file has no memory sizes
  CHECK_THAT(node.notes.at(0), ContainsSubstring("NUMA domain 0 was hidden"));
  Request request;
  request.cpus = CpuSet{0};
  CHECK(place(node, request).tasks[0].memory == std::vector<int>{1});
}

TEST_CASE(
    "If an export leaves out CPUs, memory is on the GPU's own domain and cores are the nearest that remain") {
  const Node node = fixture("restricted-export");
  CHECK(node.cpus().to_list() == "0-1");
  CHECK_THAT(node.notes.at(0), ContainsSubstring("leaves out the CPUs of NUMA domains 1-3"));
  REQUIRE(node.gpus.size() == 2);
  CHECK(node.gpus[0].domain == 1);
  CHECK(node.gpus[1].domain == 3);
  Request request;
  request.gpus = addresses(node);
  request.tasks = 2;
  const auto placement = place(node, request);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const auto& task = placement.tasks[rank];
    CHECK(task.cpus == CpuSet{static_cast<int>(rank)});
    CHECK(task.gpu_cpu == Distance::sys);
    CHECK(task.memory == std::vector<int>{node.gpus[rank].domain});
    CHECK(task.nics.at(0).name == "mlx5_" + std::to_string(rank));
    CHECK(task.gpu_nic == Distance::phb);
  }
}

TEST_CASE(
    "Only NVIDIA's GPUs are listed, and a Slingshot adapter is listed although hwloc does not name it") {
  const Node node = fixture("hidden-domain");
  REQUIRE(node.gpus.size() == 1);
  CHECK(node.gpus[0].pci.bus == 0x81);
  CHECK_THAT(node.notes.at(1), ContainsSubstring("1 AMD GPU left out"));
  REQUIRE(node.nics.size() == 2);
  CHECK(node.nics[0].kind == NicKind::slingshot);
  CHECK(node.nics[0].usable);
  CHECK(node.nics[0].interfaces == std::vector<std::string>{"hsn0"});
  CHECK(node.nics[1].reason == "Cisco usNIC, no RDMA");
}

TEST_CASE("The error for a newer hwloc format names the version and how to export an older one") {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& root) { return read_topology_file(folder.write("x.xml", root)); };
  CHECK_THROWS_WITH(read("<topology version=\"9.1\"><object type=\"Machine\"/></topology>"),
                    ContainsSubstring("hwloc XML of version 9.1, but this hwloc reads versions up to") &&
                        ContainsSubstring("--export-xml-flags v"));
  CHECK_THROWS_WITH(read("<topology version=\"9"), ContainsSubstring("x.xml: "));
  CHECK_THROWS_WITH(read("<topology version=\"x\"/>"), ContainsSubstring("not an hwloc XML file"));
}
