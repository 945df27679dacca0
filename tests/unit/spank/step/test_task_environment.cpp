// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "catch.hpp"
#include "step/task_environment.hpp"

using namespace muster;
using namespace muster::spank;

namespace {

using Variables = std::map<std::string, std::string>;

placement::GetEnv environment(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional(at->second);
  };
}

placement::TaskPlacement task_with_gpu() {
  placement::TaskPlacement task;
  task.local_rank = 1;
  task.cpus = {2, 3};
  task.cores = 2;
  task.gpus = {{{0, 0x81, 0, 0}, "GPU-b", 0}};
  return task;
}

ShownGpus both_by_index() {
  return {{{0, 0x1b, 0, 0}, {0, 0x81, 0, 0}}, true, true, task_with_gpu().gpus, 0};
}

TaskEnvironment two_ranks() {
  TaskEnvironment step;
  step.job.world_size = step.job.local_world_size = 2;
  return step;
}

std::string value_of(const std::string& name, const placement::EnvironmentChange& change) {
  const auto at = std::find_if(change.set.begin(), change.set.end(),
                               [&](const auto& variable) { return variable.name == name; });
  return at == change.set.end() ? "-" : at->value;
}

}  // namespace

TEST_CASE("A task's variables follow from its placement, its rank and the step") {
  const auto change = two_ranks().decide(task_with_gpu(), 5, both_by_index(), environment({}));
  CHECK(value_of("RANK", change) == "5");
  CHECK(value_of("LOCAL_RANK", change) == "1");
  CHECK(value_of("WORLD_SIZE", change) == "2");
  CHECK(value_of("CUDA_VISIBLE_DEVICES", change) == "1");
}

TEST_CASE("GPUs are named by index only if CUDA will count them in PCI order") {
  const auto devices = [](const TaskEnvironment& step, Variables variables) {
    return value_of("CUDA_VISIBLE_DEVICES",
                    step.decide(task_with_gpu(), 0, both_by_index(), environment(std::move(variables))));
  };
  TaskEnvironment step = two_ranks();
  CHECK(devices(step, {{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}) == "1");
  CHECK(devices(step, {{"CUDA_DEVICE_ORDER", "FASTEST_FIRST"}}) == "GPU-b");
  step.file_settings.profiles = {{"CUDA_DEVICE_ORDER", std::nullopt, "site.conf"}};  // is left alone
  CHECK(devices(step, {}) == "GPU-b");
  CHECK_FALSE(step.effective_value("CUDA_DEVICE_ORDER", environment({})));
}

TEST_CASE("The user's CUDA_VISIBLE_DEVICES stays, and parts that are switched off are not set") {
  ShownGpus shown = both_by_index();
  shown.replaceable = false;
  TaskEnvironment step = two_ranks();
  step.parts.ranks = false;
  const auto change = step.decide(task_with_gpu(), 0, shown, environment({{"CUDA_VISIBLE_DEVICES", "7"}}));
  CHECK(value_of("CUDA_VISIBLE_DEVICES", change) == "-");
  CHECK(value_of("RANK", change) == "-");
}

TEST_CASE(
    "A variable's value comes from the task, NCCL's file of the user, a profile and nccl.conf, in this "
    "order") {
  TaskEnvironment step = two_ranks();
  step.file_settings.nccl_conf = {{"NCCL_ALGO", "Ring", "/etc/nccl.conf"},
                                  {"NCCL_NET", "IB", "/etc/nccl.conf"}};
  step.file_settings.user_files = {{"NCCL_ALGO", "Tree", "own.conf"}};
  CHECK(step.effective_value("NCCL_ALGO", environment({{"NCCL_ALGO", "NVLS"}})) == "NVLS");
  CHECK(step.effective_value("NCCL_ALGO", environment({})) == "Tree");
  CHECK(step.effective_value("NCCL_NET", environment({})) == "IB");
  CHECK_FALSE(step.effective_value("NCCL_PROTO", environment({})));
}

TEST_CASE("The explanation leaves out variables that differ from rank to rank") {
  for (const auto& line : two_ranks().explain(task_with_gpu(), 1, environment({}))) {
    CHECK_FALSE(line.starts_with("RANK="));
    CHECK_FALSE(line.starts_with("MUSTER_"));
    CHECK_FALSE(line.starts_with("CUDA_VISIBLE_DEVICES="));
  }
  CHECK_FALSE(two_ranks().explain(task_with_gpu(), 1, environment({})).empty());
}
