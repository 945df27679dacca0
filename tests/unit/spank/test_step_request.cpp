// SPDX-License-Identifier: Apache-2.0
#include "step/step_request.hpp"

#include "catch.hpp"

using namespace muster;
using namespace muster::spank;

namespace {

// Eight cores of two threads: core i has CPUs i and i + 8.
placement::Node eight_cores() {
  placement::Node node;
  for (int core = 0; core < 8; ++core) node.cores.push_back({0, 0, placement::CpuSet{core, core + 8}});
  return node;
}

SlurmFacts facts_of(int tasks, int cpus_per_task = 1) {
  SlurmFacts facts;
  facts.local_tasks = tasks;
  facts.cpus_per_task = cpus_per_task;
  facts.cpus = placement::CpuSet::range(0, 15);
  return facts;
}

StepGpus gpus(int count) {
  StepGpus step;
  for (int i = 0; i < count; ++i) {
    placement::PciAddress pci;
    pci.bus = static_cast<std::uint8_t>(i + 1);
    step.whole.push_back(pci);
  }
  return step;
}

}  // namespace

TEST_CASE("CPUs per task are asked for only when the user did") {
  const auto node = eight_cores();
  CHECK(request_for(node, facts_of(2), {}, gpus(2)).cpus_per_task == 0);
  CHECK(request_for(node, facts_of(2, 4), {}, gpus(2)).cpus_per_task == 4);
  CHECK_FALSE(request_for(node, facts_of(2, 4), {}, gpus(2)).hardware_threads);
  CHECK(request_for(node, facts_of(4, 4), {}, gpus(4)).hardware_threads);

  // Of the job, where srun does not follow it; unless this step has not as many.
  SlurmFacts facts = facts_of(2);
  for (const int asked : {1, 8}) {
    facts.cpus_asked = asked;
    CHECK(request_for(node, facts, {}, gpus(2)).cpus_per_task == asked);
  }
  facts.cpus_asked = 9;
  CHECK(request_for(node, facts, {}, gpus(2)).cpus_per_task == 0);
}

TEST_CASE("The step's own cores narrow what the process may run on, when they are fewer") {
  const auto node = eight_cores();
  SlurmFacts facts = facts_of(2);
  facts.step_cores = placement::CpuSet{2, 3};
  CHECK(request_for(node, facts, {}, gpus(2)).cpus == placement::CpuSet{2, 3, 10, 11});
  facts.cpus = placement::CpuSet{5, 6};  // confined already, elsewhere
  CHECK(request_for(node, facts, {}, gpus(2)).cpus == placement::CpuSet{5, 6});
}

TEST_CASE("GPUs per task hold unless they are left over from the job") {
  const auto node = eight_cores();
  SlurmFacts facts = facts_of(2);
  facts.gpu_request.per_task = 2;
  CHECK(request_for(node, facts, {}, gpus(4)).gpus_per_task == 2);
  CHECK(request_for(node, facts, {}, gpus(2)).gpus_per_task == 0);
  CHECK(request_for(node, facts, {}, {}).gpus_per_task == 0);
  CHECK(request_for(node, facts_of(4), {}, gpus(2)).gpus_per_task == 1);
}

TEST_CASE("Tasks share a GPU when the user says so, or when Slurm's shards or MPS do") {
  const auto node = eight_cores();
  Wish wish;
  CHECK(request_for(node, facts_of(4), wish, gpus(2)).tasks_per_gpu == 1);
  wish.tasks_per_gpu = 3;
  CHECK(request_for(node, facts_of(4), wish, gpus(2)).tasks_per_gpu == 3);
  SlurmFacts shards = facts_of(5);
  shards.gpu_request.shared = true;
  CHECK(request_for(node, shards, {}, gpus(2)).tasks_per_gpu == 3);
  CHECK(request_for(node, shards, wish, gpus(2)).tasks_per_gpu == 3);
  CHECK(request_for(node, shards, {}, {}).tasks_per_gpu == 1);
}

TEST_CASE("Absurd counts do not overflow") {
  const auto node = eight_cores();
  SlurmFacts facts = facts_of(4);
  facts.gpu_request.per_task = facts.cpus_per_task = facts.cpus_asked = 1 << 30;  // times 4 is 0 in an int
  const auto request = request_for(node, facts, {}, gpus(4));
  CHECK(request.gpus_per_task == 0);
  CHECK(request.hardware_threads);
}
