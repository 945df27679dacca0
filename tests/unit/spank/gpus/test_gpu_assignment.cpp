// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "gpus/gpu_assignment.hpp"

using namespace muster;
using namespace muster::spank;
using placement::PciAddress;

namespace {

// GPU minor m is at bus 0x40 - 0x10 * m, so that the order of minors is the reverse of the PCI order.
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

placement::Placement make_plan(const placement::Node& node) {
  placement::Placement plan;
  for (int task = 0; task < static_cast<int>(node.gpus.size()); ++task) {
    placement::TaskPlacement row;
    row.local_rank = task;
    const auto& gpu = node.gpus[static_cast<std::size_t>(task)];
    row.gpus = {{gpu.pci, gpu.uuid, gpu.domain}};
    row.cpus = CpuSet{task};
    plan.tasks.push_back(row);
  }
  return plan;
}

}  // namespace

TEST_CASE("When tasks are isolated, the devices that open are the assignment") {
  const GpuAssignment assignment = find_gpu_assignment({{2, ""}, {3, ""}}, {3}, "0", true);
  CHECK(assignment.minors == std::vector<int>{3});
  CHECK_FALSE(assignment.set_by_slurm);
}

TEST_CASE("When CUDA_VISIBLE_DEVICES lists all GPUs of the step, it is Slurm's and the plan decides") {
  for (const char* all : {"0,1", "GPU-b,GPU-a"}) {
    const GpuAssignment assignment = find_gpu_assignment({{2, "GPU-a"}, {3, "GPU-b"}}, {2, 3}, all, true);
    CHECK(assignment.minors.empty());
    CHECK(assignment.set_by_slurm);
  }
}

TEST_CASE("When CUDA_VISIBLE_DEVICES lists some GPUs of the step, they are the assignment") {
  const std::vector<StepGpu> step = {{2, "GPU-a"}, {3, "GPU-b"}};
  for (const auto& [listed, confined] : std::vector<std::pair<const char*, bool>>{
           {"1", true}, {"3", false}, {"GPU-b", true}, {"GPU-b", false}}) {
    CHECK(find_gpu_assignment(step, {2, 3}, listed, confined).minors == std::vector<int>{3});
    CHECK(find_gpu_assignment(step, {2, 3}, listed, confined).set_by_slurm);
  }
}

TEST_CASE("Without a valid CUDA_VISIBLE_DEVICES the plan decides") {
  for (const auto& text : {std::optional<std::string>(), std::optional<std::string>(""),
                           std::optional<std::string>("NoDevFiles"), std::optional<std::string>("GPU-1234"),
                           std::optional<std::string>("GPU-a,"), std::optional<std::string>("9")}) {
    const GpuAssignment assignment = find_gpu_assignment({{0, "GPU-a"}, {1, "GPU-b"}}, {0, 1}, text, false);
    CHECK(assignment.minors.empty());
    CHECK_FALSE(assignment.set_by_slurm);
  }
}

namespace {

std::vector<placement::PlacedGpu> gpus_at(const placement::Node& node,
                                          std::initializer_list<std::size_t> which) {
  std::vector<placement::PlacedGpu> gpus;
  for (const auto i : which) gpus.push_back({node.gpus[i].pci, node.gpus[i].uuid, node.gpus[i].domain});
  return gpus;
}

}  // namespace

TEST_CASE("A task that Slurm bound to another GPU prefers that GPU's row") {
  const placement::Node node = two_gpus();
  const placement::Placement plan = make_plan(node);
  CHECK(preferred_rows(plan, 0, {}) == std::vector<int>{0});
  CHECK(preferred_rows(plan, 0, gpus_at(node, {0})) == std::vector<int>{0, 0});
  CHECK(preferred_rows(plan, 0, gpus_at(node, {1})) == std::vector<int>{1, 0});
  const auto moved = placement_for_gpus(plan, 1, 0, gpus_at(node, {1}));
  CHECK(moved.cpus == CpuSet{1});
  CHECK(moved.local_rank == 0);
  REQUIRE(moved.gpus.size() == 1);
  CHECK(moved.gpus[0].uuid == node.gpus[1].uuid);
}

TEST_CASE("Tasks on one GPU start at different rows of it") {
  const placement::Node node = two_gpus();
  placement::Placement plan = make_plan(node);
  // 4 tasks on 2 GPUs: rows 0 and 1 have the first GPU, 2 and 3 the second; Slurm assigns them the other way.
  plan.tasks = {plan.tasks[0], plan.tasks[0], plan.tasks[1], plan.tasks[1]};
  CHECK(preferred_rows(plan, 0, gpus_at(node, {1})).front() == 2);
  CHECK(preferred_rows(plan, 1, gpus_at(node, {1})).front() == 3);
  CHECK(preferred_rows(plan, 2, gpus_at(node, {0})).front() == 0);
  CHECK(preferred_rows(plan, 3, gpus_at(node, {0})).front() == 1);
}

TEST_CASE("A task with GPUs that no row has together prefers the row of one of them") {
  const placement::Node node = two_gpus();
  const placement::Placement plan = make_plan(node);
  for (int task : {0, 1}) {
    const auto both = gpus_at(node, {0, 1});
    CHECK(preferred_rows(plan, task, both).front() == task);
    const auto row = placement_for_gpus(plan, task, task, both);
    CHECK(row.cpus == CpuSet{task});
    CHECK(row.gpus.size() == 2);
    CHECK(row.gpu_cpu == placement::Distance::unknown);
  }
}

TEST_CASE("A task that Slurm gave another MIG instance prefers that instance's row") {
  placement::Placement plan;
  const auto instance = [](int number) {
    return placement::PlacedGpu{{}, "gpu0/gi" + std::to_string(number) + "/ci0", 0, true};
  };
  for (int task = 0; task < 3; ++task) {
    placement::TaskPlacement row;
    row.local_rank = task;
    row.cpus = CpuSet{task};
    row.gpus = {instance(task)};
    plan.tasks.push_back(row);
  }
  CHECK(preferred_rows(plan, 0, {instance(2)}).front() == 2);
  CHECK(preferred_rows(plan, 1, {}).front() == 1);
  CHECK(placement_for_gpus(plan, 2, 0, {instance(2)}).cpus == CpuSet{2});
}
