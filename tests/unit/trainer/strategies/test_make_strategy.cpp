// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "strategies/make_strategy.hpp"
#include "trainer/data/refusal.hpp"
#include "trainer/scenarios/small_run.hpp"

using namespace muster;
using small_run_of_one::small_run;

TEST_CASE("the samples that a rank computes at once are limited, not the batch", "[strategies]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.model = {2, 2, 16, 64, 256};
  const auto workload = read_workload(options);
  const auto refusal = [&](const StrategySettings& settings, int ranks) {
    return usage_error_text([&] { check_strategy(settings, *workload, ranks, true); });
  };
  Replica::Settings training;
  training.batch = 4 * 65535;
  CHECK(refusal(training, 4).empty());
  training.batch += 1;
  CHECK(
      refusal(training, 4) ==
      "--batch 262141 gives a rank 65536 samples at once, and the most are 65535: use a smaller --batch, or "
      "a --micro-batch");
  CHECK(refusal(training, 5).empty());
  CHECK(usage_error_text([&] { check_strategy(training, *workload, 4, false); }).empty());
  StrategySettings served(training);
  served.parameter_server.emplace().servers = 1;
  CHECK(refusal(served, 5).ends_with("or more workers"));
  StrategySettings pipelined(training);
  pipelined.pipeline.emplace(pipeline::Settings{pipeline::ScheduleKind::one_f_one_b, 2, 4});
  CHECK(refusal(pipelined, 2).ends_with("or more --micro-batches"));
  pipelined.pipeline->micro_batches = 5;
  CHECK(refusal(pipelined, 2).empty());
  training.micro_batch = 65535;
  CHECK(refusal(training, 1).empty());
  training.micro_batch = 0;
  training.chunk = 70000;
  CHECK(refusal(training, 8).ends_with("or a smaller --chunk"));
}

TEST_CASE("the rows that a rank computes at once are limited", "[strategies]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.model = {2, 2, 16, 1024, 256};
  const auto workload = read_workload(options);
  Replica::Settings training;
  training.batch = 4096;
  CHECK(usage_error_text([&] { check_strategy(training, *workload, 1, false); }).empty());
  training.batch = 4097;
  CHECK_FALSE(usage_error_text([&] { check_strategy(training, *workload, 1, false); }).empty());
}
