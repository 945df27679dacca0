// SPDX-License-Identifier: Apache-2.0
#include "gpu_choice.hpp"

#include "catch.hpp"

using namespace muster;
using namespace muster::spank;
using placement::PciAddress;

namespace {

// A made-up node: GPU minor m at bus 0x40 - 0x10 * m, so that minors and PCI order run against each other.
placement::Node two_gpus() {
  placement::Node node;
  for (int minor : {1, 0}) {
    placement::Gpu gpu;
    gpu.pci.bus = static_cast<std::uint8_t>(0x40 - 0x10 * minor);
    gpu.minor = minor;
    gpu.uuid = "GPU-" + std::to_string(minor);
    node.gpus.push_back(gpu);
  }
  return node;
}

placement::Placement plan_of(const placement::Node& node) {
  placement::Placement plan;
  for (int task = 0; task < static_cast<int>(node.gpus.size()); ++task) {
    placement::TaskPlacement row;
    row.local_rank = task;
    const auto& gpu = node.gpus[static_cast<std::size_t>(task)];
    row.gpus = {{gpu.pci, gpu.uuid, gpu.domain}};
    row.cpus = placement::CpuSet{task};
    plan.tasks.push_back(row);
  }
  return plan;
}

}  // namespace

TEST_CASE("Under isolation the devices that open are the choice") {
  const GpuChoice choice = gpu_choice({2, 3}, {3}, "0", true);
  CHECK(choice.minors == std::vector<int>{3});
  CHECK_FALSE(choice.set_by_slurm);
}

TEST_CASE("CUDA_VISIBLE_DEVICES that lists all of the step's GPUs is Slurm's, and the plan decides") {
  const GpuChoice choice = gpu_choice({2, 3}, {2, 3}, "0,1", true);
  CHECK(choice.minors.empty());
  CHECK(choice.set_by_slurm);
}

TEST_CASE("A part of the step's GPUs in CUDA_VISIBLE_DEVICES is a choice that holds") {
  CHECK(gpu_choice({2, 3}, {2, 3}, "1", true).minors == std::vector<int>{3});
  CHECK(gpu_choice({2, 3}, {2, 3}, "3", false).minors == std::vector<int>{3});
  CHECK(gpu_choice({2, 3}, {2, 3}, "1", true).set_by_slurm);
  CHECK(gpu_choice({2, 3}, {2, 3}, "3", false).set_by_slurm);
}

TEST_CASE("Without a usable CUDA_VISIBLE_DEVICES the plan decides") {
  for (const auto& text : {std::optional<std::string>(), std::optional<std::string>(""),
                           std::optional<std::string>("NoDevFiles"), std::optional<std::string>("GPU-1234"),
                           std::optional<std::string>("9")}) {
    const GpuChoice choice = gpu_choice({0, 1}, {0, 1}, text, false);
    CHECK(choice.minors.empty());
    CHECK_FALSE(choice.set_by_slurm);
  }
}

TEST_CASE("A task that Slurm bound to another GPU takes that GPU's cores") {
  const placement::Node node = two_gpus();
  const placement::Placement plan = plan_of(node);
  CHECK(row_for(plan, node, 0, {}, true).cpus == placement::CpuSet{0});
  CHECK(row_for(plan, node, 0, {node.gpus[0].pci}, true).cpus == placement::CpuSet{0});
  const auto moved = row_for(plan, node, 0, {node.gpus[1].pci}, true);
  CHECK(moved.cpus == placement::CpuSet{1});
  CHECK(moved.local_rank == 0);
  REQUIRE(moved.gpus.size() == 1);
  CHECK(moved.gpus[0].uuid == node.gpus[1].uuid);
}

TEST_CASE("Two tasks that Slurm swapped still have disjoint cores") {
  const placement::Node node = two_gpus();
  const placement::Placement plan = plan_of(node);
  CHECK_FALSE(row_for(plan, node, 0, {node.gpus[1].pci}, true)
                  .cpus.intersects(row_for(plan, node, 1, {node.gpus[0].pci}, true).cpus));
}

TEST_CASE("Tasks that share GPUs never share cores") {
  const placement::Node node = two_gpus();
  const placement::Placement plan = plan_of(node);
  const auto both = {node.gpus[0].pci, node.gpus[1].pci};
  for (int task : {0, 1}) {
    // --gpu-bind=closest: both tasks see both GPUs; --gpu-bind=single:2: both see the first.
    const auto closest = row_for(plan, node, task, both, false);
    CHECK(closest.cpus == placement::CpuSet{task});
    CHECK(closest.gpus.size() == 2);
    const auto single = row_for(plan, node, task, {node.gpus[0].pci}, false);
    CHECK(single.cpus == placement::CpuSet{task});
    CHECK(single.gpus.front().pci == node.gpus[0].pci);
  }
}

TEST_CASE("GPUs that no task was to have together leave the cores as planned") {
  const placement::Node node = two_gpus();
  const placement::Placement plan = plan_of(node);
  CHECK(row_for(plan, node, 1, {node.gpus[0].pci, node.gpus[1].pci}, true).cpus == placement::CpuSet{1});
}

TEST_CASE("A task that Slurm gave another MIG instance takes that instance's cores") {
  placement::Placement plan;
  for (int task = 0; task < 3; ++task) {
    placement::TaskPlacement row;
    row.local_rank = task;
    row.cpus = placement::CpuSet{task};
    row.gpus = {{{}, "gpu0/gi" + std::to_string(task) + "/ci0", 0, true}};
    plan.tasks.push_back(row);
  }
  const auto moved = row_with(plan, 0, {"gpu0/gi2/ci0"});
  CHECK(moved.local_rank == 0);
  CHECK(moved.cpus == placement::CpuSet{2});
  CHECK(row_with(plan, 1, {}).cpus == placement::CpuSet{1});
  CHECK(row_with(plan, 1, {"gpu0/gi1/ci0"}).cpus == placement::CpuSet{1});
  CHECK(row_with(plan, 1, {"gpu0/gi0/ci0", "gpu0/gi1/ci0"}).cpus == placement::CpuSet{1});
}

TEST_CASE("Only per-task binding deals each GPU once") {
  CHECK(deals_each_gpu_once(""));
  CHECK(deals_each_gpu_once("gpu:per_task:1"));
  CHECK_FALSE(deals_each_gpu_once("gpu:closest"));
  CHECK_FALSE(deals_each_gpu_once("gpu:single:2"));
  CHECK_FALSE(deals_each_gpu_once("gpu:map_gpu:0,0"));
}
