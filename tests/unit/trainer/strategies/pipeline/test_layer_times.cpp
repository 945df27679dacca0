// SPDX-License-Identifier: Apache-2.0
// --balance=time: the layers of a model are measured, and divided by what each rank needed for them.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "catch.hpp"
#include "muster/philox.hpp"
#include "strategies/pipeline/divide_layers.hpp"
#include "strategies/pipeline/layer_times.hpp"
#include "strategies/pipeline/plan.hpp"
#include "temporary_folder.hpp"
#include "trainer/models/model_fixture.hpp"
#include "trainer/scenarios/small_run.hpp"

using namespace muster;
using namespace muster::pipeline;
using small_run_of_one::small_run;

namespace {

/// Random seconds for `stages` stages, each on a rank of its own speed.
std::vector<LayerTimes> random_times(int stages, std::uint64_t seed) {
  std::vector<LayerTimes> times;
  for (int stage = 0; stage < stages; ++stage) {
    const auto draw = [&](std::uint64_t number) {
      return 1 + static_cast<double>(uniform_bits(seed, static_cast<std::uint64_t>(stage), number) % 9);
    };
    times.push_back({draw(0), draw(1), draw(2), draw(3)});
  }
  return times;
}

double slowest(const std::vector<models::LayerRange>& stages, const StageCost& cost) {
  double most = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) most = std::max(most, cost(static_cast<int>(i), stages[i]));
  return most;
}

/// The slowest stage of the best division of the layers from `first` on into the stages from `stage` on, of
/// all divisions.
double try_all(int first, int layers, int stage, int stages, const StageCost& cost) {
  if (stage + 1 == stages) return cost(stage, {first, layers});
  double best = std::numeric_limits<double>::infinity();
  for (int last = first + 1; last <= layers - (stages - 1 - stage); ++last) {
    best =
        std::min(best, std::max(cost(stage, {first, last}), try_all(last, layers, stage + 1, stages, cost)));
  }
  return best;
}

Plan plan_of(const pipeline::Settings& settings, const Workload& workload, int ranks) {
  Replica::Settings training;
  training.batch = 16;
  return make_plan(settings, training, workload, 0, ranks);
}

}  // namespace

TEST_CASE("a division has the quickest slowest stage of all divisions", "[pipeline]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const int layers = 2 + static_cast<int>(uniform_bits(seed, 0, 90) % 9);
    const int stages = 2 + static_cast<int>(uniform_bits(seed, 0, 91) % static_cast<unsigned>(layers - 1));
    const std::vector<LayerTimes> times = random_times(stages, seed);
    std::vector<int> kinds(static_cast<std::size_t>(layers));
    for (std::size_t layer = 1; layer < kinds.size(); ++layer)
      kinds[layer] = layer + 1 == kinds.size() ? 3 : 1 + static_cast<int>(uniform_bits(seed, 1, layer) % 2);
    const StageCost cost = [&](int stage, const models::LayerRange& range) {
      return stage_seconds(times[static_cast<std::size_t>(stage)], range, kinds);
    };
    const auto found = divide_layers(kinds, stages, cost);
    INFO("seed " << seed << ": " << layers << " layers, " << stages << " stages");
    REQUIRE(found.size() == static_cast<std::size_t>(stages));
    int next = 0;
    for (const models::LayerRange& range : found) {
      CHECK(range.first == next);
      CHECK(range.count() > 0);
      next = range.last;
    }
    CHECK(next == layers);
    CHECK(slowest(found, cost) == try_all(0, layers, 0, stages, cost));
  }
}

TEST_CASE("a stage takes the time of its layers, each by its kind", "[pipeline]") {
  const LayerTimes times{5, 2, 9};
  const std::vector<int> kinds{0, 1, 1, 1, 1, 2};
  CHECK(stage_seconds(times, {0, 1}, kinds) == 5);
  CHECK(stage_seconds(times, {0, 3}, kinds) == 9);
  CHECK(stage_seconds(times, {2, 5}, kinds) == 6);
  CHECK(stage_seconds(times, {5, 6}, kinds) == 9);
  CHECK(stage_seconds(times, {3, 6}, kinds) == 13);
}

TEST_CASE("a plan divides layers by the time of each rank", "[pipeline]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.model = {8, 2, 16, 8, 128};
  const auto workload = read_workload(options);
  pipeline::Settings settings{ScheduleKind::gpipe, 2, 4, 1, Balance::time, {}};
  const Plan unmeasured = plan_of(settings, *workload, 2);
  settings.balance = Balance::memory;
  CHECK(unmeasured.stages == plan_of(settings, *workload, 2).stages);

  settings.balance = Balance::time;
  settings.layer_times = {{1, 1, 0}, {0, 1, 4}};  // a slow output layer
  CHECK(plan_of(settings, *workload, 2).stages.front().count() == 5);
  settings.layer_times = {{3, 3, 0}, {0, 1, 1}};  // a slow first rank
  CHECK(plan_of(settings, *workload, 2).stages.front().count() == 2);
  settings.schedule = ScheduleKind::interleaved_1f1b;
  settings.virtual_stages = 2;  // stages 0 and 2 are the slow rank's
  const auto stages = plan_of(settings, *workload, 2).stages;
  REQUIRE(stages.size() == 4);
  CHECK(stages[0].count() + stages[2].count() == 2);

  Replica::Settings training;
  training.batch = 16;
  const std::string text = describe_plan(settings, training, *workload, {"n0", "n0"});
  CHECK(text.find("measured") != std::string::npos);
  CHECK(text.find(" 3000.00 ms ") != std::string::npos);
  settings.layer_times.clear();
  CHECK(describe_plan(settings, training, *workload, {"n0", "n0"}).find("measured") == std::string::npos);
}

TEST_CASE("each rank measures the layers that its stages can have", "[pipeline]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.model = {8, 2, 16, 8, 128};
  const auto workload = read_workload(options);
  Replica::Settings training;
  training.batch = 12;
  training.seed = 7;
  const pipeline::Settings settings{ScheduleKind::interleaved_1f1b, 3, 3, 2, Balance::time, {}};
  for (int rank = 0; rank < 6; ++rank) {  // two pipelines
    const Plan plan = make_plan(settings, training, *workload, rank, 6);
    const MeasuredLayers measured = layers_to_measure(plan, training);
    CHECK(measured.first == (rank % 3 == 0));
    CHECK(measured.last == (rank % 3 == 2));
    CHECK(measured.samples == 2);
    CHECK(measured.seed == 7);
  }
}

TEMPLATE_TEST_CASE("a layer with a large output layer takes longer", "[pipeline]", float, bfloat16) {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.model = {4, 2, 16, 16, 16384};
  const auto workload = read_workload(options);
  auto compute = test_compute<TestType>();
  const LayerTimes times = measure_layers(*workload, {true, true, 4, 1}, compute);
  REQUIRE(times.size() == 3);
  CHECK(times[0] > 0);
  CHECK(times[1] > 0);
  CHECK(times[2] > 3 * times[1]);
  const LayerTimes inner = measure_layers(*workload, {false, false, 4, 1}, compute);
  CHECK(inner[0] == 0);
  CHECK(inner[1] > 0);
  CHECK(inner[2] == 0);
}
