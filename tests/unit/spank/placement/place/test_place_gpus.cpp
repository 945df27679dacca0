// SPDX-License-Identifier: Apache-2.0
// The GPUs, shared GPUs and MIG instances that place() assigns to each task.
#include "catch.hpp"
#include "placement/environment/environment.hpp"
#include "spank/placement/machines.hpp"

using namespace muster::placement;
using namespace muster::placement::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Two domains of eight cores with two GPUs on each.
Node four_gpus() {
  Node node = make_node({2, 1, 8, 1});
  for (const int bus : {0x10, 0x20, 0x80, 0x90}) add_gpu(node, bus >= 0x80 ? 1 : 0, bus);
  return node;
}

/// The position of each task's GPUs in PCI order, "0 0 1 1", "01 23".
std::string assigned(const Node& node, const Placement& placement) {
  std::string text;
  for (const auto& task : placement.tasks) {
    if (!text.empty()) text += ' ';
    for (const auto& gpu : task.gpus) text += std::to_string(node.find_gpu(gpu.pci) - node.gpus.data());
  }
  return text;
}

std::string assign(const Node& node, int tasks, int tasks_per_gpu, int gpus_per_task = 0) {
  Request request;
  request.tasks = tasks;
  request.tasks_per_gpu = tasks_per_gpu;
  request.gpus_per_task = gpus_per_task;
  request.gpus = addresses(node);
  std::reverse(request.gpus.begin(), request.gpus.end());
  return assigned(node, place(node, request));
}

}  // namespace

TEST_CASE("If tasks are bound to GPUs already, their cores and memory are near those GPUs") {
  const Node node = four_gpus();
  const auto all = addresses(node);
  Request request;
  request.tasks = 3;
  request.gpus = all;
  request.bound = {{all[3]}, {all[0], all[1]}, {all[3]}};
  const auto placement = place(node, request);
  CHECK(assigned(node, placement) == "3 01 3");
  CHECK(placement.tasks[0].memory == std::vector<int>{1});
  CHECK(placement.tasks[1].memory == std::vector<int>{0});
  for (const auto& task : placement.tasks) CHECK(task.gpu_cpu == Distance::node);
  CHECK_FALSE(placement.tasks[0].cpus.intersects(placement.tasks[2].cpus));
  request.tasks = 2;
  CHECK_THROWS_WITH(place(node, request), ContainsSubstring("GPUs of 3 tasks are bound"));
  // A bound list alone does not allow sharing.
  request.tasks = 3;
  request.gpus = {all[0], all[3]};
  CHECK_THROWS_WITH(place(node, request), ContainsSubstring("tasks-per-gpu=2"));
}

TEST_CASE("Tasks share GPUs only on request: evenly, the first GPUs with one task more") {
  const Node node = four_gpus();
  CHECK(assign(node, 8, 2) == "0 0 1 1 2 2 3 3");
  CHECK(assign(node, 6, 2) == "0 0 1 1 2 3");
  CHECK(assign(node, 5, 8) == "0 0 1 2 3");
  CHECK(assign(node, 4, 2) == "0 1 2 3");
  CHECK(assign(node, 3, 2) == "0 1 23");
  CHECK(assign(node, 4, 2, 2) == "01 01 23 23");
  CHECK(assign(node, 3, 2, 2) == "01 01 23");
  CHECK_THROWS_WITH(assign(node, 8, 1),
                    ContainsSubstring("8 tasks with 1 GPU each need 8 GPUs, but the step has 4 "
                                      "on testnode") &&
                        ContainsSubstring("let tasks share GPUs (tasks-per-gpu=2)"));
  CHECK_THROWS_WITH(assign(node, 9, 2), ContainsSubstring("(tasks-per-gpu=3)"));
  CHECK_THROWS_WITH(assign(node, 2, 1, 3),
                    ContainsSubstring("need 6 GPUs") && ContainsSubstring("tasks-per-gpu=2"));
  CHECK_THROWS_AS(assign(node, 4, 0), Error);
  CHECK_THROWS_AS(assign(node, 5, 2, 5), Error);
}

TEST_CASE("Tasks that share a GPU get cores of their own on its domain, and its NIC") {
  Node node = four_gpus();
  add_nic(node, "mlx5_0", 0, 0x11, 0x10);
  Request request;
  request.tasks = 8;
  request.tasks_per_gpu = 2;
  request.gpus = addresses(node);
  const auto placement = place(node, request);
  CHECK(placement.tasks[0].cpus.to_list() == "0-1");
  CHECK(placement.tasks[1].cpus.to_list() == "2-3");
  CHECK(placement.tasks[7].cpus.to_list() == "14-15");
  CHECK(placement.tasks[1].nics.at(0).label == "mlx5_0");
  CHECK(placement.tasks[1].gpu_nic == Distance::pix);
  CHECK(placement.tasks[1].reasons.back() == "GPU shared by the tasks 0 to 1, as asked");
}

TEST_CASE("MIG instances go to tasks one by one, in the PCI order of their parents and near the parent") {
  const Node node = four_gpus();
  Request request;
  request.tasks = 4;
  request.mig = {{"MIG-c", node.gpus[2].pci},
                 {"MIG-b", node.gpus[0].pci},
                 {"MIG-a", node.gpus[0].pci},
                 {"MIG-b", node.gpus[0].pci}};
  request.gpus = {node.gpus[0].pci, node.gpus[3].pci};  // the first is in MIG mode
  const auto placement = place(node, request);
  const auto uuid = [&](std::size_t task) { return placement.tasks[task].gpus.at(0).uuid; };
  CHECK(uuid(0) == "MIG-b");
  CHECK(uuid(1) == "MIG-a");
  CHECK(uuid(2) == "MIG-c");
  CHECK(uuid(3) == node.gpus[3].uuid);
  CHECK(placement.tasks[1].gpus[0].mig);
  CHECK_FALSE(placement.tasks[3].gpus[0].mig);
  CHECK(placement.tasks[1].gpus[0].pci == node.gpus[0].pci);
  CHECK(placement.tasks[1].cpus.to_list() == "4-7");
  CHECK(placement.tasks[2].cpus.to_list() == "8-11");
  CHECK(placement.tasks[2].memory == std::vector<int>{1});
  CHECK(placement.tasks[1].reasons.back() == "MIG: locality is that of the parent GPU");
  for (const auto& task : placement.tasks) {
    for (const auto& reason : task.reasons) CHECK_THAT(reason, !ContainsSubstring("shared by"));
    const auto variables = derive_environment(task, {});
    const bool has_devices = std::any_of(variables.begin(), variables.end(),
                                         [](const auto& one) { return one.name == "CUDA_VISIBLE_DEVICES"; });
    CHECK(has_devices == !task.gpus[0].mig);  // Slurm made the instances visible
  }
  request.tasks = 5;
  CHECK_THROWS_WITH(place(node, request), ContainsSubstring("5 tasks with 1 GPU each need 5 GPUs"));
  request.mig = {{"MIG-x", PciAddress{7, 7, 7, 0}}};
  CHECK_THROWS_WITH(place(node, request), ContainsSubstring("GPU 0007:07:07.0 is not on testnode"));
}

TEST_CASE("Seven instances of one GPU without UUIDs are seven devices") {
  const Node node = four_gpus();
  Request request;
  request.tasks = 7;
  request.mig.assign(7, {"", node.gpus[1].pci});
  const auto placement = place(node, request);
  for (const auto& task : placement.tasks) {
    REQUIRE(task.gpus.size() == 1);
    CHECK(task.cpus.size() == 1);
    CHECK(task.gpu_cpu == Distance::node);
    CHECK_THAT(task.reasons.back(), ContainsSubstring("MIG"));
  }
}

TEST_CASE("Allotted GPUs that are not used cause a warning") {
  const Node node = four_gpus();
  Request request;
  request.gpus_per_task = 1;
  request.gpus = addresses(node);
  const auto placement = place(node, request);
  CHECK(placement.tasks[0].gpus.size() == 1);
  CHECK_THAT(placement.warnings.at(0), ContainsSubstring("3 of 4 allotted GPUs are not used"));
}
