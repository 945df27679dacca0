// SPDX-License-Identifier: Apache-2.0
// The settings of --strategy=pipeline, how layers and samples are divided, and what is refused.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "catch.hpp"
#include "strategies/pipeline/divide_layers.hpp"
#include "strategies/pipeline/divide_ranks.hpp"
#include "strategies/pipeline/plan.hpp"
#include "temporary_folder.hpp"
#include "trainer/data/refusal.hpp"
#include "trainer/scenarios/small_run.hpp"

using namespace muster;
using namespace muster::pipeline;
using small_run_of_one::small_run;

namespace {

std::vector<int> layer_counts(const std::vector<models::LayerRange>& stages) {
  std::vector<int> layers;
  int next = 0;
  for (const models::LayerRange& stage : stages) {
    CHECK(stage.first == next);
    next = stage.last;
    layers.push_back(stage.count());
  }
  return layers;
}

/// The kinds of so many layers, of which the first and the last one are special.
std::vector<int> gpt_layers(std::size_t count) {
  std::vector<int> kinds(count, 1);
  kinds.front() = 0;
  kinds.back() = 2;
  return kinds;
}

std::string pipeline_refusal(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "muster-train");
  return usage_error_text([&] { parse_options(static_cast<int>(arguments.size()), arguments.data()); });
}

}  // namespace

TEST_CASE("layers are divided so that the most expensive stage is cheapest", "[pipeline]") {
  const auto even = [](int, const models::LayerRange& layers) { return layers.count(); };
  CHECK(layer_counts(divide_layers(gpt_layers(8), 4, even)) == std::vector{2, 2, 2, 2});
  CHECK(layer_counts(divide_layers(gpt_layers(3), 3, even)) == std::vector{1, 1, 1});
  const auto slow_end = [](int, const models::LayerRange& layers) {
    return layers.count() + (layers.last == 8 ? 2.0 : 0.0);
  };
  const auto found = layer_counts(divide_layers(gpt_layers(8), 4, slow_end));
  CHECK(found.back() == 1);
  CHECK(*std::max_element(found.begin(), found.end()) == 3);
  const auto early_stages_keep_more = [](int stage, const models::LayerRange& layers) {
    return layers.count() * (2 - stage);
  };
  CHECK(layer_counts(divide_layers(gpt_layers(6), 2, early_stages_keep_more)) == std::vector{2, 4});
}

TEST_CASE("as many pipelines as possible have all ranks on one host", "[pipeline]") {
  using Pipelines = std::vector<std::vector<int>>;
  CHECK(divide_ranks({0, 0, 0, 0}, 2) == Pipelines{{0, 1}, {2, 3}});
  CHECK(divide_ranks({0, 0, 0, 0, 1, 1, 1, 1}, 2) == Pipelines{{0, 1}, {2, 3}, {4, 5}, {6, 7}});  // block
  CHECK(divide_ranks({0, 1, 0, 1, 0, 1, 0, 1}, 2) == Pipelines{{0, 2}, {1, 3}, {4, 6}, {5, 7}});  // cyclic
  CHECK(divide_ranks({0, 1, 0, 1, 0, 1, 0, 1}, 4) == Pipelines{{0, 2, 4, 6}, {1, 3, 5, 7}});
  CHECK(divide_ranks({0, 1, 0, 1}, 4) == Pipelines{{0, 2, 1, 3}});
  CHECK(divide_ranks({0, 0, 0, 1, 1, 1, 2, 2}, 2) == Pipelines{{0, 1}, {2, 5}, {3, 4}, {6, 7}});
  CHECK(divide_ranks({0, 0, 0, 1, 1, 1, 2, 2}, 4) == Pipelines{{0, 1, 2, 3}, {4, 5, 6, 7}});
  // Host 1 alone has enough ranks.
  CHECK(divide_ranks({0, 1, 0, 1, 1, 2}, 3) == Pipelines{{0, 2, 5}, {1, 3, 4}});
}

TEST_CASE("the plans of all ranks place the stages alike, by their hosts", "[pipeline]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.model = {4, 2, 16, 8, 128};
  const auto workload = read_workload(options);
  Replica::Settings training;
  training.batch = 12;
  pipeline::Settings settings{ScheduleKind::one_f_one_b, 2, 2};
  settings.hosts = {0, 1, 0, 1, 2, 2};
  for (int rank = 0; rank < 6; ++rank) {
    const Plan plan = make_plan(settings, training, *workload, rank, 6);
    CHECK(plan.world_ranks == std::vector<std::vector<int>>{{0, 2}, {1, 3}, {4, 5}});
    CHECK(plan.world_rank(plan.rank, plan.replica) == rank);
    CHECK(plan.micro_batches.front().begin == 4 * static_cast<std::uint64_t>(plan.replica));
  }
  const std::string text =
      describe_plan(settings, training, *workload, {"n0", "n1", "n0", "n1", "login", "login"});
  CHECK(text.find("activations  hosts\n") != std::string::npos);
  CHECK(std::count(text.begin(), text.end(), '\n') == 4);
  for (const std::string ranks : {"\n      0     0-1,4 ", "\n      1     2-3,5 "}) {
    const std::size_t row = text.find(ranks);
    REQUIRE(row != std::string::npos);
    CHECK(text.substr(row, text.find('\n', row + 1) - row).ends_with(" MiB  login,n[0-1]"));
  }
}

TEST_CASE("a plan divides ranks and samples", "[pipeline]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.model = {4, 2, 16, 8, 128};
  const auto workload = read_workload(options);
  Replica::Settings training;
  training.batch = 10;
  const Plan plan = make_plan({ScheduleKind::one_f_one_b, 2, 2}, training, *workload, 5, 6);
  CHECK(plan.replicas == 3);
  CHECK(plan.replica == 2);
  CHECK(plan.rank == 1);
  CHECK(plan.world_rank(1, 2) == 5);
  REQUIRE(plan.micro_batches.size() == 2);
  CHECK(plan.micro_batches.front().begin == 7);
  CHECK(plan.micro_batches.back().end == 10);
  CHECK(plan.max_samples == 2);
  training.chunk = 3;  // 4 chunks for 3 pipelines
  CHECK(make_plan({ScheduleKind::gpipe, 2}, training, *workload, 0, 6).micro_batches.size() == 2);
  const Plan last = make_plan({ScheduleKind::gpipe, 2}, training, *workload, 5, 6);
  CHECK(last.micro_batches.back().end == 10);
  CHECK(last.max_samples == 3);

  training.chunk = 0;
  const auto problem = [&](const pipeline::Settings& settings, int ranks) {
    return usage_error_text([&] { check_plan(settings, training, *workload, ranks); });
  };
  check_plan({ScheduleKind::one_f_one_b, 2, 2}, training, *workload, 6);
  CHECK(problem({ScheduleKind::gpipe, 4}, 6) == "--strategy=pipeline: 6 ranks are no multiple of --stages 4");
  CHECK(problem({ScheduleKind::gpipe, 0}, 5).find("4 layers for 5 stages") != std::string::npos);
  CHECK(problem({ScheduleKind::one_f_one_b, 4, 2}, 4).find("2 is fewer than 4") != std::string::npos);
  CHECK(problem({ScheduleKind::gpipe, 2, 5}, 6).find("--batch 10 is too small for 5 micro-batches") !=
        std::string::npos);
}

TEST_CASE("settings that have no effect on a pipeline, or none without one, are refused",
          "[options][pipeline]") {
  CHECK(pipeline_refusal({"--stages=2"}).find("--stages 2 has a meaning with --strategy=pipeline only") == 0);
  CHECK(pipeline_refusal({"--micro-batches=2"}).find("--micro-batches 2 has a meaning with") == 0);
  CHECK(
      pipeline_refusal({"--pipeline-schedule=gpipe"}).find("--pipeline-schedule gpipe has a meaning with") ==
      0);
  CHECK(pipeline_refusal({"--strategy=pipeline", "--virtual-stages=2"})
            .find("--virtual-stages 2 has a meaning") == 0);
  CHECK(pipeline_refusal({"--strategy=pipeline", "--micro-batch=2"}).find("give --micro-batches instead") !=
        std::string::npos);
  CHECK(pipeline_refusal({"--strategy=pipeline", "--deterministic", "--micro-batches=2"})
            .find("--micro-batches 2 has no") == 0);
  CHECK(pipeline_refusal({"--strategy=pipeline", "--pipeline-schedule=zb-h1", "--recompute"})
            .find("--recompute contradicts --pipeline-schedule=zb-h1") == 0);
  CHECK(
      pipeline_refusal({"--strategy=pipeline", "--stages=8"}).find("--stages 8 are more than the 4 layers") ==
      0);
  CHECK(pipeline_refusal({"--strategy=pipeline", "--stages=1"}).find("--stages 1 is no pipeline") == 0);
  CHECK(pipeline_refusal({"--strategy=pipeline", "--model=resnet20", "--sync-batch-norm", "--deterministic"})
            .find("--sync-batch-norm contradicts --deterministic") == 0);
}
