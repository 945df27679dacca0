// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "step/step_request.hpp"

using namespace muster;
using namespace muster::spank;

namespace {

// Eight cores of two threads: core i has CPUs i and i + 8.
placement::Node eight_cores() {
  placement::Node node;
  for (int core = 0; core < 8; ++core) node.cores.push_back({0, 0, CpuSet{core, core + 8}});
  return node;
}

SlurmFacts make_facts(int tasks, int cpus_per_task = 1) {
  SlurmFacts facts;
  facts.local_tasks = tasks;
  facts.cpus_per_task = cpus_per_task;
  facts.cpus = CpuSet::parse_list("0-15").value();
  return facts;
}

std::vector<placement::PlacedGpu> gpus(int count) {
  std::vector<placement::PlacedGpu> step(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    step[static_cast<std::size_t>(i)].pci.bus = static_cast<std::uint8_t>(i + 1);
  return step;
}

}  // namespace

TEST_CASE("CPUs per task are requested only when the user requested them") {
  const auto node = eight_cores();
  CHECK(make_request(node, make_facts(2), {}, gpus(2)).cpus_per_task == 0);
  CHECK(make_request(node, make_facts(2, 4), {}, gpus(2)).cpus_per_task == 4);
  CHECK_FALSE(make_request(node, make_facts(2, 4), {}, gpus(2)).hardware_threads);
  CHECK(make_request(node, make_facts(4, 4), {}, gpus(4)).hardware_threads);

  // The job's request, which srun does not pass on, applies unless this step has fewer CPUs.
  SlurmFacts facts = make_facts(2);
  for (const int requested : {1, 8}) {
    facts.cpus_requested = requested;
    CHECK(make_request(node, facts, {}, gpus(2)).cpus_per_task == requested);
  }
  facts.cpus_requested = 9;
  CHECK(make_request(node, facts, {}, gpus(2)).cpus_per_task == 0);
}

TEST_CASE("When the step's cores are fewer than those of the process, they limit the request") {
  const auto node = eight_cores();
  SlurmFacts facts = make_facts(2);
  facts.step_cores = CpuSet{2, 3};
  CHECK(make_request(node, facts, {}, gpus(2)).cpus == CpuSet{2, 3, 10, 11});
  facts.cpus = CpuSet{5, 6};  // confined already, to other cores
  CHECK(make_request(node, facts, {}, gpus(2)).cpus == CpuSet{5, 6});
}

TEST_CASE("GPUs per task are used unless they come from the job and do not fit the step") {
  const auto node = eight_cores();
  SlurmFacts facts = make_facts(2);
  facts.gpu_request.per_task = 2;
  CHECK(make_request(node, facts, {}, gpus(4)).gpus_per_task == 2);
  CHECK(make_request(node, facts, {}, gpus(2)).gpus_per_task == 0);
  CHECK(make_request(node, facts, {}, {}).gpus_per_task == 0);
  CHECK(make_request(node, make_facts(4), {}, gpus(2)).gpus_per_task == 1);
}

TEST_CASE("Tasks share a GPU when the user requests it, or with Slurm's shards or MPS") {
  const auto node = eight_cores();
  StepOptions options;
  CHECK(make_request(node, make_facts(4), options, gpus(2)).tasks_per_gpu == 1);
  options.tasks_per_gpu = 3;
  CHECK(make_request(node, make_facts(4), options, gpus(2)).tasks_per_gpu == 3);
  SlurmFacts shards = make_facts(5);
  shards.gpu_request.shared = true;
  CHECK(make_request(node, shards, {}, gpus(2)).tasks_per_gpu == 3);
  CHECK(make_request(node, shards, options, gpus(2)).tasks_per_gpu == 3);
  CHECK(make_request(node, shards, {}, {}).tasks_per_gpu == 1);
}

TEST_CASE("Absurd counts do not overflow") {
  const auto node = eight_cores();
  SlurmFacts facts = make_facts(4);
  facts.gpu_request.per_task = facts.cpus_per_task = facts.cpus_requested = 1
                                                                            << 30;  // times 4 is 0 in an int
  const auto request = make_request(node, facts, {}, gpus(4));
  CHECK(request.gpus_per_task == 0);
  CHECK(request.hardware_threads);
}
