// SPDX-License-Identifier: Apache-2.0
// What a run records, and when it keeps an earlier run's results.
#include "catch.hpp"
#include "content.hpp"
#include "run/recorder.hpp"
#include "temporary_folder.hpp"

using namespace muster;

namespace {

Options options_in(const TemporaryFolder& folder) {
  Options options;
  options.output = folder.path().string();
  options.tensorboard = false;
  return options;
}

}  // namespace

TEST_CASE("the summary has the steps of this start and the last validation", "[recorder]") {
  const TemporaryFolder folder;
  const Options options = options_in(folder);
  Summary facts;
  facts.first_step = 4;
  facts.tokens_per_step = 10;
  Progress progress(false, 1, 6, Throughput());
  Recorder recorder(options, facts, false, std::chrono::steady_clock::now());
  StepResult result;
  result.communication = 0.5;
  result.gradient_bytes = 40;
  recorder.communication(result);
  result.loss = 2;
  recorder.step(progress, 5, result, 1e-3);
  result.communication = 1.5;
  recorder.communication(result);
  result.loss = 3;
  recorder.step(progress, 6, result, 1e-3);
  CHECK_FALSE(recorder.has_validation(6));
  recorder.validation(progress, 6, {{8.0, 4.0}, {3.0, 4.0}});
  CHECK(recorder.has_validation(6));
  const Summary summary = recorder.summary(Throughput(), 6, "step-6", "finished");
  CHECK(summary.ended == "finished");
  CHECK(summary.checkpoint == "step-6");
  CHECK(summary.communication_seconds == 1);
  CHECK(summary.gradient_bytes == 40);
  CHECK(summary.training_loss == 2.5);
  CHECK(summary.validation_loss == 2.0);
  CHECK(summary.validation_accuracy == 0.75);
  recorder.write_results(summary);
  for (const char* name : {"metrics.jsonl", "summary.json", "report.html", "loss.svg"})
    CHECK(std::filesystem::exists(folder / name));
}

TEST_CASE("a start without a step keeps the summary of the same end", "[recorder]") {
  const TemporaryFolder folder;
  const Options options = options_in(folder);
  Summary facts;
  facts.first_step = 6;
  const auto write = [&](const std::string& ended) {
    Recorder recorder(options, facts, true, std::chrono::steady_clock::now());
    recorder.write_results(recorder.summary(Throughput(), 6, "", ended));
    return content(folder / "summary.json");
  };
  const std::string first = write("finished");
  facts.data = "changed";
  CHECK(write("finished") == first);
  CHECK(write("stopped by signal 15") != first);
}
