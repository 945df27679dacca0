// SPDX-License-Identifier: Apache-2.0
// The default number of cores a task, and GPUs that are near to several domains.
#include "catch.hpp"
#include "spank/placement/machines.hpp"

using muster::CpuSet;
using namespace muster::placement;
using namespace muster::placement::test;
using Catch::Matchers::ContainsSubstring;

namespace {

Request request_per_gpu(const Node& node) {
  Request request;
  request.gpus = addresses(node);
  request.tasks = static_cast<int>(request.gpus.size());
  return request;
}

/// Two packages of four domains with four cores each; the GPUs are near to the whole second package.
Node split_packages(int gpus) {
  Node node = make_node({2, 4, 4, 1});
  for (int i = 0; i < gpus; ++i) add_gpu(node, -1, 0x10 + i);
  for (auto& gpu : node.gpus) gpu.near_domains = {4, 5, 6, 7};
  return node;
}

}  // namespace

TEST_CASE("Without a requested size, no task gets a remote core, and a note counts the idle cores") {
  Node node = make_node({2, 4, 8, 2});  // GPUs on four of eight domains
  for (const int domain : {1, 2, 6, 7}) add_gpu(node, domain, 0x10 * (domain + 1));
  Request request = request_per_gpu(node);
  auto placement = place(node, request);
  CHECK(placement.tasks[1].cpus.to_list() == "16-23");
  CHECK(placement.tasks[1].gpu_cpu == Distance::node);
  CHECK(placement.tasks[1].reasons[0] == "8 cores on NUMA 2 (the GPU's)");
  CHECK(placement.notes ==
        std::vector<std::string>{"32 of 64 cores idle: larger equal shares would not be near to the GPUs "
                                 "(--cpus-per-task uses them)"});
  request.cpus_per_task = 2;
  CHECK(place(node, request).notes ==
        std::vector<std::string>{"56 of 64 cores idle: each task asks for 2 CPUs"});
  request.cpus_per_task = 16;
  placement = place(node, request);
  CHECK(placement.notes.empty());
  CHECK(placement.tasks[1].cpus.size() == 16);
  CHECK(placement.tasks[1].gpu_cpu == Distance::sys);
  CHECK_THAT(placement.tasks[1].reasons[0], ContainsSubstring("8 cores on NUMA 2 (the GPU's)"));
}

TEST_CASE("The task with the fewest local cores decides the size; if it has none, all cores are divided") {
  Node node = make_node({2, 1, 8, 2});
  add_gpu(node, 0, 0x10);
  add_gpu(node, 1, 0x80);
  Request request = request_per_gpu(node);
  request.cpus = CpuSet::parse_list("0-7,8-10,16-23,24-26").value();
  CHECK(place(node, request).tasks[0].cpus.to_list() == "0-2");
  CHECK(place(node, request).tasks[1].cpus.to_list() == "8-10");
  request.hardware_threads = true;
  CHECK(place(node, request).tasks[1].cpus.to_list() == "8-10,24-26");
  request.cpus = CpuSet::parse_list("0-7,16-23").value();
  const auto placement = place(node, request);
  CHECK(placement.tasks[0].cpus.to_list() == "0-3,16-19");
  CHECK(placement.tasks[1].cpus.to_list() == "4-7,20-23");
  CHECK(placement.tasks[0].gpu_cpu == Distance::node);
  CHECK(placement.tasks[1].gpu_cpu == Distance::sys);
  CHECK(placement.tasks[1].reasons[0] == "4 cores on NUMA 0 (distance 32: none left on 1)");
}

TEST_CASE("A task near to two domains leaves the cores of one to a task near to that one only") {
  Node node = make_node({2, 1, 4, 1});
  for (const int domain : {0, 0, 1}) add_gpu(node, domain, 0x10 + static_cast<int>(node.gpus.size()));
  Request request = request_per_gpu(node);
  request.tasks = 2;  // GPU 0; GPUs 1 and 2
  request.cpus_per_task = 4;
  const auto placement = place(node, request);
  CHECK(placement.tasks[0].cpus.to_list() == "0-3");
  CHECK(placement.tasks[1].cpus.to_list() == "4-7");
  CHECK(placement.tasks[0].gpu_cpu == Distance::node);
  CHECK(placement.tasks[1].gpu_cpu == Distance::node);
}

TEST_CASE(
    "GPUs near to a package of several domains start from different ones, and memory comes from the cores' "
    "domains") {
  const Node node = split_packages(2);
  Request request = request_per_gpu(node);
  auto placement = place(node, request);
  CHECK(placement.tasks[0].cpus.to_list() == "16-23");
  CHECK(placement.tasks[1].cpus.to_list() == "24-31");
  CHECK(placement.tasks[0].memory == std::vector<int>{4, 5});
  CHECK(placement.tasks[0].gpu_cpu == Distance::node);
  request.cpus_per_task = 2;
  placement = place(node, request);
  CHECK(placement.tasks[0].cpus.to_list() == "16-17");
  CHECK(placement.tasks[1].cpus.to_list() == "24-25");
  CHECK(placement.tasks[1].memory == std::vector<int>{6});
  request.cpus = CpuSet::parse_list("0-3,20-21").value();  // none on the first domain of either
  placement = place(node, request);
  CHECK(placement.tasks[0].cpus.to_list() == "20-21");
  CHECK(placement.tasks[0].memory == std::vector<int>{5});
  CHECK(placement.tasks[0].gpu_cpu == Distance::node);
  CHECK(placement.tasks[1].cpus.to_list() == "0-1");
  CHECK(placement.tasks[1].gpu_cpu == Distance::sys);
  CHECK(placement.tasks[1].memory == std::vector<int>{6});
}

TEST_CASE("A NIC on one of a GPU's near domains has distance NODE, on another package SYS") {
  Node node = split_packages(1);
  add_nic(node, "mlx5_0", 0, 0x80);
  CHECK(place(node, request_per_gpu(node)).tasks[0].gpu_nic == Distance::sys);
  add_nic(node, "mlx5_1", 6, 0x90);
  const auto placement = place(node, request_per_gpu(node));
  CHECK(placement.tasks[0].gpu_nic == Distance::node);
  CHECK(placement.tasks[0].nics.at(0).name == "mlx5_1");
}

TEST_CASE("A task without a GPU stays within one domain if one has enough cores") {
  const Node node = make_node({2, 1, 8, 1});
  Request request;
  request.tasks = 2;
  request.cpus = CpuSet::parse_list("7,8-15").value();  // one core on domain 0
  request.cpus_per_task = 4;
  const auto placement = place(node, request);
  CHECK(placement.tasks[0].cpus.to_list() == "8-11");
  CHECK(placement.tasks[1].cpus.to_list() == "12-15");
}
