// SPDX-License-Identifier: Apache-2.0
// Updates that are not finite are skipped; several in a row end the run.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "catch.hpp"
#include "content.hpp"
#include "small_run.hpp"
#include "strategies/data_parallel/replica.hpp"
#include "temporary_folder.hpp"
#include "trainer/models/model_fixture.hpp"
#include "training/collective_errors.hpp"

using namespace muster;
using namespace small_run_of_one;

TEST_CASE("an update that is not finite is skipped, and training continues with the same parameters",
          "[training]") {
  const TemporaryFolder folder;
  const Options options = small_run(folder);
  Job job = Job::join({.device = Device::cpu});
  auto compute = test_compute<float>();
  const auto workload = read_workload(options);
  const int chunk = GENERATE(0, 2);
  Replica replica({options.optimizer, options.batch, 3, chunk}, *workload, compute, job.host_world());
  replica.initialize();
  REQUIRE(replica.step(0, 0, 1e-3, {}).finite);
  const std::uint64_t before = replica.parameter_hash();
  const TrainingTensors tensors = replica.tensors();
  const std::vector<float> moment(tensors.moment2.begin(), tensors.moment2.end());
  const float good = tensors.parameters[0];
  tensors.parameters[0] = std::numeric_limits<float>::quiet_NaN();
  const StepResult result = replica.step(1, 5, 1e-3, {true, true});
  CHECK_FALSE(result.finite);
  CHECK(result.any_stop);
  CHECK(result.any_failed);
  // Perhaps only some chunks have the token of that row.
  CHECK(result.non_finite_samples.count() > 0);
  CHECK(result.non_finite_samples.begin >= 5);
  CHECK(result.non_finite_samples.end <= 10);
  tensors.parameters[0] = good;
  CHECK(replica.parameter_hash() == before);
  CHECK(std::equal(moment.begin(), moment.end(), tensors.moment2.begin()));
  CHECK(replica.step(2, 10, 1e-3, {}).finite);
  CHECK(replica.parameter_hash() != before);
  job.leave();
}

TEST_CASE("a diverging run skips updates up to the limit, stops, and prints why", "[training]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.learning_rate = 1e30;
  options.optimizer.clip = 0;
  options.checkpoint_every = 1;
  options.stop_after_skipped = GENERATE(1, 3);
  try {
    train_alone(options);
    FAIL("went on");
  } catch (const CollectiveAbort& ended) {
    CHECK(ended.exit_code() == 1);
  }
  const auto last = last_line(folder / "run/metrics.jsonl");
  CHECK(last.at("skipped") == true);
  const auto status = last_line(folder / "run/status.json");
  CHECK(status.at("state") == "failed");
  // The checkpoint that the message names is from before the first skipped update.
  const std::int64_t step = last.at("step");
  CHECK(status.at("step") == step);
  CHECK(status.at("checkpoint") == checkpoint_folder(options, step - options.stop_after_skipped).string());
  // It writes the same results as a finished run.
  const auto summary = nlohmann::json::parse(content(folder / "run/summary.json"));
  CHECK(summary.at("ended").get<std::string>().starts_with("stopped: "));
  CHECK(summary.at("skipped_updates") == options.stop_after_skipped);
  CHECK(summary.at("checkpoint") == status.at("checkpoint"));
  const std::string report = content(folder / "run/report.html");
  CHECK(report.find("updates skipped") != std::string::npos);
  CHECK(report.find("nan") == std::string::npos);
  CHECK(content(folder / "run/loss.svg").find("skipped updates (") != std::string::npos);
}
