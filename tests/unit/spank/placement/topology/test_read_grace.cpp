// SPDX-License-Identifier: Apache-2.0
// Machines on which a GPU's own memory is a NUMA domain. The synthetic trees have the published shape of
// GH200 (9 and 36 domains, 1 and 4 with CPUs) and GB200 (34 domains, 2 with CPUs; GPU memory on 2, 10, 18,
// 26).
#include "catch.hpp"
#include "placement/topology/read.hpp"
#include "spank/placement/machines.hpp"
#include "spank/placement/properties.hpp"
#include "spank/placement/trees.hpp"
#include "temporary_folder.hpp"

using namespace muster::placement;
using namespace muster::placement::test;
using Catch::Matchers::ContainsSubstring;

namespace {

Placement planned(const Node& node) {
  Request request;
  request.gpus = addresses(node);
  request.tasks = static_cast<int>(request.gpus.size());
  auto placement = place(node, request);
  check_properties(node, request, placement);
  return placement;
}

std::string cpus_and_memory(const Placement& placement) {
  std::string text;
  for (const auto& task : placement.tasks) {
    text += (text.empty() ? "" : " ") + task.cpus.to_list() + "@";
    for (const int domain : task.memory) text += std::to_string(domain);
    CHECK(task.gpu_cpu == Distance::node);
  }
  return text;
}

}  // namespace

TEST_CASE("On GB200, cores and memory are the nearest processor's, whichever domain the driver reports") {
  const bool own_memory = GENERATE(false, true);
  const TemporaryFolder tree;
  write_grace(tree, {2, 2, own_memory});
  const Node node = read_live(tree.path().string());
  REQUIRE(node.domains.size() == 34);
  REQUIRE(node.gpus.size() == 4);
  CHECK(node.gpus[3].pci.to_string() == "0019:01:00.0");
  CHECK(node.gpus[3].domain == (own_memory ? 26 : 1));
  for (const int id : {2, 10, 18, 26}) CHECK(node.find_domain(id)->gpu_memory);
  CHECK(cpus_and_memory(planned(node)) == "0-35@0 36-71@0 72-107@1 108-143@1");
}

TEST_CASE("On GH200 with one or four superchips, cores and memory are the nearest processor's") {
  const bool own_memory = GENERATE(false, true);
  const TemporaryFolder one, four;
  write_grace(one, {1, 1, own_memory});
  const Node single = read_live(one.path().string());
  CHECK(single.domains.size() == 9);
  CHECK(cpus_and_memory(planned(single)) == "0-71@0");
  write_grace(four, {4, 1, own_memory});
  const Node quad = read_live(four.path().string());
  CHECK(quad.domains.size() == 36);
  CHECK(cpus_and_memory(planned(quad)) == "0-71@0 72-143@1 144-215@2 216-287@3");
}

TEST_CASE("If a processor has no memory, tasks get the other processor's memory, not a GPU's") {
  const TemporaryFolder tree;
  write_grace(tree, {2, 2, true});
  tree.write("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:       0 kB\n");
  CHECK(cpus_and_memory(planned(read_live(tree.path().string()))) == "0-35@0 36-71@0 72-107@0 108-143@0");
}

TEST_CASE("If a GPU's memory is equally far from all processors, the device's local CPUs decide, if known") {
  const TemporaryFolder tree;
  write_grace(tree, {2, 2, true, false});
  const auto placement = planned(read_live(tree.path().string()));
  CHECK(placement.tasks[2].gpu_cpu == Distance::unknown);
  CHECK(placement.tasks[2].memory == std::vector<int>{1});
  CHECK_THAT(placement.tasks[0].reasons[0], ContainsSubstring("does not say which of its 2 NUMA domains"));
  // Four GPUs; the kernel reports that the last two are near to the other processor.
  for (const std::string bus : {"0008", "0009", "0018", "0019"})
    tree.write("sys/devices/pci" + bus + ":00/" + bus + ":00:00.0/" + bus + ":01:00.0/local_cpulist",
               bus < "0010" ? "0-71\n" : "72-143\n");
  CHECK(cpus_and_memory(planned(read_live(tree.path().string()))) == "0-35@0 36-71@0 72-107@1 108-143@1");
}

TEST_CASE("Memory-only domains (CXL) are used only if no processor has memory") {
  Node node = make_node({2, 1, 4, 1});
  add_gpu(node, 0, 0x10);
  Request request;
  request.gpus = addresses(node);
  NumaDomain cxl;
  cxl.id = 2;
  cxl.memory_bytes = std::uint64_t{1} << 38;
  cxl.distances = {14, 24, 10};
  node.domains.push_back(cxl);
  node.domains[0].distances = {10, 32, 14};
  node.domains[1].distances = {32, 10, 24};
  CHECK(place(node, request).tasks[0].memory == std::vector<int>{0});
  node.domains[0].memory_bytes = 0;
  CHECK(place(node, request).tasks[0].memory == std::vector<int>{1});
  node.domains[1].memory_bytes = 0;
  CHECK(place(node, request).tasks[0].memory == std::vector<int>{2});
  node.gpus[0].domain = 2;  // a GPU on the memory's domain: the nearest processor is 0
  CHECK(place(node, request).tasks[0].cpus.to_list() == "0-3");
}
