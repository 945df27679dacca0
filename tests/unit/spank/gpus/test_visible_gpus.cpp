// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "gpus/visible_gpus.hpp"

using namespace muster;
using namespace muster::spank;
using Catch::Matchers::ContainsSubstring;

namespace {

placement::PlacedGpu gpu(int bus) {
  placement::PlacedGpu placed;
  placed.pci.bus = static_cast<std::uint8_t>(bus);
  placed.uuid = "GPU-" + std::to_string(bus);
  return placed;
}

// tasks[i]: the buses of its GPUs.
placement::Placement plan_with(const std::vector<std::vector<int>>& tasks) {
  placement::Placement plan;
  for (const auto& buses : tasks) {
    placement::TaskPlacement task;
    task.local_rank = static_cast<int>(plan.tasks.size());
    for (const int bus : buses) task.gpus.push_back(gpu(bus));
    plan.tasks.push_back(task);
  }
  return plan;
}

std::vector<std::string> names(const std::vector<placement::PlacedGpu>& gpus) {
  std::vector<std::string> list;
  for (const auto& one : gpus) list.push_back(one.uuid);
  return list;
}

}  // namespace

TEST_CASE("Without a request each task sees the GPUs that Slurm would have shown") {
  const auto plan = plan_with({{1}, {2}});
  CHECK(choose_visible({{}, true, false, false}, plan).visible == Visible::own);
  CHECK(choose_visible({{}, false, false, false}, plan).visible == Visible::node);
  CHECK(choose_visible({{}, false, false, false}, plan).problem.empty());
}

TEST_CASE("A request is met when it is possible") {
  const auto plan = plan_with({{1}, {2}});
  CHECK(choose_visible({Visible::node, true, false, false}, plan).visible == Visible::node);
  CHECK(choose_visible({Visible::own, false, false, false}, plan).visible == Visible::own);
}

TEST_CASE("When tasks cannot see all GPUs, they see their own, with a reason if all were requested") {
  const auto plan = plan_with({{1}, {2}});
  const auto isolated = choose_visible({Visible::node, true, true, false}, plan);
  CHECK(isolated.visible == Visible::own);
  CHECK_THAT(isolated.problem, ContainsSubstring("visible=node is not possible: Slurm hides"));
  const auto bound = choose_visible({Visible::node, false, false, true}, plan);
  CHECK(bound.visible == Visible::own);
  CHECK_THAT(bound.problem, ContainsSubstring("--gpu-bind"));
  const auto shared = plan_with({{1}, {1}, {2}, {2}});
  CHECK_THAT(choose_visible({Visible::node, false, false, false}, shared).problem,
             ContainsSubstring("use one GPU"));
  const auto unasked = choose_visible({{}, false, false, false}, shared);
  CHECK(unasked.visible == Visible::own);
  CHECK(unasked.problem.empty());
}

TEST_CASE(
    "When Slurm gives no CUDA names of MIG instances, visible= has no effect, with a reason if it was "
    "requested") {
  const auto plan = plan_with({{1}, {2}});
  const VisibleFacts facts{.requested = {}, .unnamed = true};
  CHECK(choose_visible(facts, plan).problem.empty());
  CHECK_THAT(choose_visible(facts, plan).reason, ContainsSubstring("no CUDA_VISIBLE_DEVICES"));
  const VisibleFacts requested{.requested = Visible::own, .unnamed = true};
  CHECK_THAT(choose_visible(requested, plan).problem,
             ContainsSubstring("visible= has no effect: Slurm has set no"));
}

TEST_CASE("All GPUs of the step are in the order of the tasks, those of no task last") {
  const std::vector<placement::PlacedGpu> all = {gpu(1), gpu(2), gpu(3), gpu(4), gpu(5)};
  CHECK(names(in_rank_order(plan_with({{4}, {1}, {2}}), all)) ==
        std::vector<std::string>{"GPU-4", "GPU-1", "GPU-2", "GPU-3", "GPU-5"});
  CHECK(names(in_rank_order(plan_with({{3, 4}, {1, 2}}), all)) ==
        std::vector<std::string>{"GPU-3", "GPU-4", "GPU-1", "GPU-2", "GPU-5"});
}

TEST_CASE("When GPU number LOCAL_RANK belongs to another task, there is a warning") {
  CHECK_THAT(index_warning(Visible::node, plan_with({{1, 2}, {3, 4}})), ContainsSubstring("2*LOCAL_RANK"));
  CHECK(index_warning(Visible::node, plan_with({{1}, {2}})).empty());
  CHECK(index_warning(Visible::own, plan_with({{1, 2}, {3, 4}})).empty());
  CHECK(index_warning(Visible::node, plan_with({{1, 2}})).empty());
}
