// SPDX-License-Identifier: Apache-2.0
// The guarantees of place(), each on the smallest machine that shows it.
#include "catch.hpp"
#include "spank/placement/machines.hpp"

using muster::CpuSet;
using namespace muster::placement;
using namespace muster::placement::test;
using Catch::Matchers::ContainsSubstring;

namespace {

Placement plan(const Node& node, int tasks, int cpus_per_task = 0, int gpus_per_task = 0) {
  Request request;
  request.tasks = tasks;
  request.cpus_per_task = cpus_per_task;
  request.gpus_per_task = gpus_per_task;
  request.gpus = addresses(node);
  return place(node, request);
}

std::string nic_labels(const TaskPlacement& task) {
  std::string list;
  for (const auto& nic : task.nics) list += (list.empty() ? "" : ",") + nic.label;
  return list;
}

/// Two domains of four cores with a GPU on each, the first GPU in PCI order on domain 1.
Node crossed() {
  Node node = make_node({2, 1, 4, 2});
  add_gpu(node, 1, 0x10);
  add_gpu(node, 0, 0x80);
  return node;
}

}  // namespace

TEST_CASE("Local ranks follow PCI order and CPUs follow the GPU") {
  const auto placement = plan(crossed(), 2);
  REQUIRE(placement.tasks.size() == 2);
  CHECK(placement.tasks[0].gpus[0].pci.bus == 0x10);
  CHECK(placement.tasks[0].cpus.to_list() == "4-7");
  CHECK(placement.tasks[0].memory == std::vector<int>{1});
  CHECK(placement.tasks[0].gpu_cpu == Distance::node);
  CHECK(placement.tasks[0].cores == 4);
  CHECK(placement.tasks[1].cpus.to_list() == "0-3");
  CHECK(placement.warnings.empty());
}

TEST_CASE("Hardware threads are used only on request or if cores do not suffice") {
  const Node node = crossed();
  Request request;
  request.tasks = 2;
  request.gpus = addresses(node);
  request.hardware_threads = true;
  CHECK(place(node, request).tasks[1].cpus.to_list() == "0-3,8-11");
  request.cpus_per_task = 3;  // whole cores first: one core and one thread of the next
  CHECK(place(node, request).tasks[1].cpus.to_list() == "0-1,8");
  request.hardware_threads = false;
  CHECK(place(node, request).tasks[1].cpus.to_list() == "0-2");
  request.cpus_per_task = 8;  // sixteen CPUs on eight cores
  const auto placement = place(node, request);
  CHECK(placement.tasks[1].cpus.to_list() == "0-3,8-11");
  REQUIRE(placement.warnings.size() == 1);
  CHECK_THAT(placement.warnings[0], ContainsSubstring("hardware threads are used too"));
}

TEST_CASE("If a domain is full, cores come from the nearest domain, not from the next number") {
  Node node = make_node({2, 2, 2, 1});  // domains 0,1 in one package, 2,3 in the other
  add_gpu(node, 3, 0x10);
  const auto placement = plan(node, 1, 3);
  CHECK(placement.tasks[0].cpus.to_list() == "4,6-7");
  CHECK(placement.tasks[0].gpu_cpu == Distance::sys);
  CHECK(placement.tasks[0].memory == std::vector<int>{3});
  CHECK_THAT(placement.tasks[0].reasons[0], ContainsSubstring("distance 12"));
}

TEST_CASE("No task gets a remote core while a local one is idle") {
  Node node = make_node({2, 1, 4, 1});
  add_gpu(node, 0, 0x10);
  add_gpu(node, 0, 0x11);
  add_gpu(node, 1, 0x80);
  const auto placement = plan(node, 3, 2);
  CHECK(placement.tasks[0].cpus.to_list() == "0-1");
  CHECK(placement.tasks[1].cpus.to_list() == "2-3");
  CHECK(placement.tasks[2].cpus.to_list() == "4-5");
}

TEST_CASE("If only cores on the wrong socket are allotted, the task gets those") {
  Node node = crossed();
  Request request;
  request.tasks = 1;
  request.gpus = {node.gpus[0].pci};
  request.cpus = CpuSet::parse_list("0-1,8-9").value();
  const auto placement = place(node, request);
  CHECK(placement.tasks[0].cpus.to_list() == "0-1");
  CHECK(placement.tasks[0].gpu_cpu == Distance::sys);
  CHECK(placement.tasks[0].memory == std::vector<int>{1});
}

TEST_CASE("With more tasks than cores or CPUs, tasks share them, with a warning") {
  Node node = make_node({1, 1, 2, 2});
  for (int bus = 1; bus <= 6; ++bus) add_gpu(node, 0, bus);
  Request request;
  request.gpus = addresses(node);
  request.tasks = 4;
  auto placement = place(node, request);
  REQUIRE(placement.warnings.size() == 1);
  CHECK_THAT(placement.warnings[0], ContainsSubstring("each with hardware threads of its own"));
  CpuSet all;
  for (const auto& task : placement.tasks) {
    CHECK(task.cpus.size() == 1);
    CHECK_FALSE(all.intersects(task.cpus));
    all |= task.cpus;
  }
  request.tasks = 6;
  placement = place(node, request);
  REQUIRE(placement.warnings.size() == 1);
  CHECK_THAT(placement.warnings[0], ContainsSubstring("up to 2 tasks share one CPU"));
  for (const auto& task : placement.tasks) CHECK(task.cpus.size() == 1);
}

TEST_CASE("If more CPUs are requested than allotted, tasks get equal shares, with a warning") {
  const auto placement = plan(crossed(), 2, 99);
  CHECK(placement.tasks[0].cpus.size() == placement.tasks[1].cpus.size());
  CHECK_THAT(placement.warnings.at(0), ContainsSubstring("do not fit on the 16 allotted CPUs"));
}

TEST_CASE("A task with several GPUs gets cores and memory from all their domains") {
  Node node = make_node({2, 1, 4, 1});
  for (const int bus : {0x10, 0x11}) add_gpu(node, 0, bus);
  for (const int bus : {0x80, 0x81}) add_gpu(node, 1, bus);
  const auto one = plan(node, 1, 4);
  CHECK(one.tasks[0].gpus.size() == 4);
  CHECK(one.tasks[0].cpus.to_list() == "0-1,4-5");
  CHECK(one.tasks[0].memory == std::vector<int>{0, 1});
  CHECK(one.tasks[0].gpu_cpu == Distance::node);
  const auto two = plan(node, 2, 0, 2);
  CHECK(two.tasks[0].cpus.to_list() == "0-3");
  CHECK(two.tasks[1].cpus.to_list() == "4-7");
}

TEST_CASE("If a GPU's locality is unknown, an only domain is local; with several, cores are divided evenly") {
  Node one = make_node({1, 1, 4, 1});
  add_gpu(one, -1, 0x10);
  CHECK(plan(one, 1).tasks[0].gpu_cpu == Distance::node);
  CHECK(plan(one, 1).tasks[0].memory == std::vector<int>{0});

  Node two = make_node({2, 1, 4, 1});
  add_gpu(two, -1, 0x10);
  add_gpu(two, -1, 0x20);
  const auto placement = plan(two, 2, 2);
  CHECK(placement.tasks[0].gpu_cpu == Distance::unknown);
  CHECK(placement.tasks[0].cpus.to_list() == "0-1");
  CHECK(placement.tasks[1].cpus.to_list() == "4-5");
  CHECK(placement.tasks[1].memory == std::vector<int>{1});
  CHECK_THAT(placement.tasks[0].reasons[0], ContainsSubstring("does not say which of its 2 NUMA domains"));
}

TEST_CASE("Memory never comes from a GPU or from a domain without memory") {
  // Like a Grace-Hopper node: next to each CPU domain are GPU memory domains that are nearer to the GPU.
  Node node = make_node({2, 1, 4, 1});
  for (int id = 2; id < 10; ++id) {
    NumaDomain memory;
    memory.id = id;
    memory.memory_bytes = id < 4 ? std::uint64_t{96} << 30 : 0;
    memory.gpu_memory = id < 4;
    node.domains.push_back(memory);
  }
  for (auto& domain : node.domains) {
    domain.distances.clear();
    for (int other = 0; other < 10; ++other) {
      const bool far = domain.id % 2 != other % 2;
      const bool memory = domain.id > 1 || other > 1;
      domain.distances.push_back(domain.id == other ? 10 : 40 + (far ? 40 : 0) + (memory ? 40 : 0));
    }
  }
  add_gpu(node, 2, 0x10);  // the driver may report the GPU's own memory as its domain
  add_gpu(node, 1, 0x20);
  auto placement = plan(node, 2);
  CHECK(placement.tasks[0].memory == std::vector<int>{0});
  CHECK(placement.tasks[1].memory == std::vector<int>{1});
  node.domains[1].memory_bytes = 0;
  placement = plan(node, 2);
  CHECK(placement.tasks[1].memory == std::vector<int>{0});
  CHECK(placement.tasks[1].cpus.to_list() == "4-7");
}

TEST_CASE("Memory comes only from allowed domains") {
  Request request;
  const Node node = crossed();
  request.gpus = {node.gpus[0].pci};
  request.memory = {0};
  CHECK(place(node, request).tasks[0].memory == std::vector<int>{0});
  request.memory = {77};
  CHECK(place(node, request).tasks[0].memory.empty());
}

TEST_CASE("Each GPU gets its nearest NIC; equally near NICs are spread evenly over all GPUs of the node") {
  Node node = make_node({2, 1, 8, 1});
  for (const int bus : {0x10, 0x11, 0x80, 0x81}) add_gpu(node, bus >= 0x80 ? 1 : 0, bus);
  add_nic(node, "mlx5_0", 0, 0x20, 0x11);
  add_nic(node, "mlx5_1", 1, 0x90);
  add_nic(node, "mlx5_2", 1, 0x91);
  add_nic(node, "mlx5_3", 0, 0x21);
  auto placement = plan(node, 4);
  CHECK(nic_labels(placement.tasks[1]) == "mlx5_0");
  CHECK(placement.tasks[1].gpu_nic == Distance::pix);
  CHECK(placement.tasks[0].gpu_nic == Distance::phb);
  CHECK(nic_labels(placement.tasks[0]) == "mlx5_3");
  CHECK(nic_labels(placement.tasks[2]) == "mlx5_1");
  CHECK(nic_labels(placement.tasks[3]) == "mlx5_2");
  CHECK(placement.tasks[0].node_nics.size() == 4);

  Request request;  // the second GPU of a package, allotted alone, keeps its rail
  request.gpus = {node.gpus[3].pci};
  CHECK(nic_labels(place(node, request).tasks[0]) == "mlx5_2");
}

TEST_CASE("An adapter with two ports serves a near GPU with both ports, a far one with one") {
  Node node = make_node({2, 1, 4, 1});
  add_gpu(node, 0, 0x10);
  add_nic(node, "mlx5_0", 0, 0x20, 0x10);
  add_nic(node, "mlx5_1", 0, 0x21, 0x10);
  CHECK(nic_labels(plan(node, 1).tasks[0]) == "mlx5_0,mlx5_1");
  for (auto& nic : node.nics) {
    nic.domain = 1;
    nic.path.host_bridge = "pci1";
  }
  CHECK(nic_labels(plan(node, 1).tasks[0]) == "mlx5_0");
  CHECK(plan(node, 1).tasks[0].gpu_nic == Distance::sys);
}

TEST_CASE("Without a usable NIC, the reason names each NIC") {
  Node node = crossed();
  add_nic(node, "mlx5_0", 0, 0x20);
  node.nics[0].up = false;
  finish(node);
  const auto placement = plan(node, 2);
  CHECK(placement.tasks[0].nics.empty());
  CHECK(placement.tasks[0].reasons.back() == "no usable NIC: mlx5_0: InfiniBand port is not active");
}

TEST_CASE("Without GPUs, tasks get disjoint shares, each on one domain") {
  Node node = make_node({2, 1, 4, 1});
  add_nic(node, "mlx5_0", 1, 0x20);
  const auto placement = plan(node, 2);
  CHECK(placement.tasks[0].cpus.to_list() == "0-3");
  CHECK(placement.tasks[1].cpus.to_list() == "4-7");
  CHECK(placement.tasks[1].memory == std::vector<int>{1});
  CHECK(nic_labels(placement.tasks[0]) == "mlx5_0");
}

TEST_CASE("Invalid requests cause an error with the reason") {
  const Node node = crossed();
  Request request;
  request.gpus = addresses(node);
  request.tasks = 4;
  request.gpus_per_task = 1;
  CHECK_THROWS_WITH(place(node, request),
                    ContainsSubstring("4 tasks with 1 GPU each need 4 GPUs, but the step has 2 on testnode"));
  request.gpus_per_task = 0;
  CHECK_THROWS_AS(place(node, request), Error);
  request.tasks = 0;
  CHECK_THROWS_AS(place(node, request), Error);
  request.tasks = 1;
  request.cpus_per_task = -1;
  CHECK_THROWS_AS(place(node, request), Error);
  request.cpus_per_task = 0;
  request.cpus = CpuSet{500};
  CHECK_THROWS_WITH(place(node, request), ContainsSubstring("None of the allotted CPUs 500"));
  request.cpus = CpuSet{0, 500};
  CHECK_THAT(place(node, request).warnings.at(0), ContainsSubstring("500 are not on testnode"));
  request.gpus = {PciAddress{9, 9, 9, 0}};
  CHECK_THROWS_WITH(
      place(node, request),
      ContainsSubstring("GPU 0009:09:09.0 is not on testnode, which has 0000:10:00.0, 0000:80"));
}
