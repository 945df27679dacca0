// SPDX-License-Identifier: Apache-2.0
// What a run does in each step and keeps in its state: learning rate, non-finite updates, and position.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <thread>

#include "catch.hpp"
#include "content.hpp"
#include "data/shard.hpp"
#include "small_run.hpp"
#include "strategies/data_parallel/replica.hpp"
#include "trainer/data/refusal.hpp"
#include "trainer/models/model_fixture.hpp"

using namespace muster;
using namespace small_run_of_one;

namespace {

/// Changes a small run's checkpoint with `change` and writes it again.
void change_checkpoint(const Options& options, std::int64_t step,
                       const std::function<void(TrainingState&, std::vector<float>&)>& change) {
  const auto table = models::gpt_tensors(options.model);
  std::vector<float> parameters(table.arena_size), moment1 = parameters, moment2 = parameters;
  TrainingState state;
  {
    const Checkpoint checkpoint(checkpoint_folder(options, step));
    state = checkpoint.state();
    checkpoint.read(table, {parameters, moment1, moment2});
  }
  change(state, parameters);
  write_checkpoint(checkpoint_folder(options, step), state, table, {parameters, moment1, moment2});
}

nlohmann::json read_summary(const Options& options) {
  return nlohmann::json::parse(content(std::filesystem::path(options.output) / "summary.json"));
}

}  // namespace

TEST_CASE("the chunks with a gradient or loss that is not finite are reported", "[run_state]") {
  auto compute = test_compute<float>();
  const float nan = std::numeric_limits<float>::quiet_NaN(), good = 1, bad = nan;
  float slots[Replica::extra_scalars] = {};
  const auto chunk = [&](std::size_t number, float logit, const float& gradient) {
    float logits[] = {logit, 2};
    const compute::Token target = 1;
    compute.compute_cross_entropy(logits, &target, 1, 2, 1.0f);
    compute.check_finite(&gradient, 1, 0, nullptr);
    compute.end_chunk(number, 1, false, false, slots);
    return slots[compute::non_finite_slot] == 0;
  };
  compute.begin_step(4, 1);
  CHECK(chunk(0, 1, good));
  CHECK_FALSE(chunk(1, 1, bad));
  CHECK(chunk(2, 1, good));
  CHECK_FALSE(chunk(3, nan, good));
  CHECK(compute.outcome().chunk_is_finite == std::vector<bool>{true, false, true, false});
}

TEST_CASE("a step uses the learning rate that the metrics report", "[run_state]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.steps = options.warmup = 4;
  options.eval_every = 0;
  options.checkpoint_every = 1;
  options.keep = 4;
  options.optimizer.beta1 = options.optimizer.beta2 = 0;  // so each element moves by the learning rate
  options.optimizer.epsilon = 1e-12;
  CHECK(train_alone(options) == 0);
  const auto table = models::gpt_tensors(options.model);
  std::vector<float> before(table.arena_size), after = before, moment1 = before, moment2 = before;
  std::istringstream metrics(content(folder / "run/metrics.jsonl"));
  for (int step = 1; step <= 4; ++step) {
    std::string line;
    std::getline(metrics, line);
    const double rate = nlohmann::json::parse(line).at("learning_rate");
    CHECK(rate == Approx(step * options.learning_rate / 4).epsilon(1e-5));
    Checkpoint(checkpoint_folder(options, step)).read(table, {after, moment1, moment2});
    double largest = 0;
    for (const auto& tensor : table.tensors) {
      for (std::size_t i = tensor.offset; !tensor.decay && i < tensor.offset + tensor.count; ++i)
        largest = std::max(largest, std::abs(double{after[i]} - double{before[i]}));
    }
    if (step > 1) CHECK(largest == Approx(rate).epsilon(1e-3));
    before.swap(after);
  }
}

TEST_CASE("the status of a run says how far it is", "[run_state]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.steps = 50'000;
  options.eval_every = options.checkpoint_every = 0;
  SECTION("with each line of progress") { options.log_every = 0; }
  SECTION("with each checkpoint") { options.checkpoint_every = 5; }
  const auto status = folder / "run/status.json";
  std::int64_t seen = 0;
  std::thread reader([&] {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    while (seen == 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (!std::filesystem::exists(status)) continue;
      const auto line = last_line(status);
      if (line.at("state") == "finished") return;
      if (line.at("state") == "running") seen = line.at("step");
    }
    if (seen > 0) ::kill(::getpid(), SIGTERM);
  });
  const int code = run_exit_code(options);
  reader.join();
  CHECK(code == 0);
  CHECK(seen > 0);
  CHECK(last_line(status).at("step") >= seen);
}

TEST_CASE("data that become shorter during a run end it", "[run_state]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "the quick brown fox jumps over the lazy dog; ";
  write_file(options.data, text);
  options.steps = 50'000;
  options.checkpoint_every = 0;
  options.status = (folder / "status").string();
  std::thread other = when_training(options, [&] { std::filesystem::resize_file(options.data, 0); });
  const int code = run_exit_code(options);
  other.join();
  CHECK(code == 64);
  CHECK(last_line(options.status).at("state") == "failed");
  CHECK(last_line(options.status).at("step") < 50'000);
}

TEST_CASE("a token beyond the vocabulary is found before the first step", "[run_state]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  std::vector<compute::Token> tokens(20'000, 7);
  options.data = (folder / "shard.bin").string();
  options.steps = 1;
  options.validation_fraction = GENERATE(0.0, 0.5);
  data::write_shard(options.data, tokens);
  CHECK(usage_error_text([&] { read_workload(options); }).empty());
  for (const std::size_t at : {0, 12'345, 19'999}) {
    CAPTURE(at);
    auto wrong = tokens;
    wrong[at] = 256;
    data::write_shard(options.data, wrong);
    CHECK(usage_error_text([&] {
            read_workload(options);
          }).find(options.data + ": token 256 at position " + std::to_string(at) + " ") == 0);
  }
}

TEST_CASE("a resumed run continues the checkpoint's count of skipped updates", "[run_state]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.stop_after_skipped = 3;
  options.steps = 20;
  CHECK(run_exit_code(options) == 0);
  options.steps = 60;
  SECTION("one more skipped update reaches the limit") {
    change_checkpoint(options, 20, [](TrainingState& state, std::vector<float>& parameters) {
      state.skipped = 2;
      parameters[0] = std::numeric_limits<float>::quiet_NaN();
    });
    CHECK(run_exit_code(options) == 1);
    CHECK(last_line(folder / "run/metrics.jsonl").at("step") == 21);
  }
  SECTION("a finite update resets the count") {
    change_checkpoint(options, 20, [](TrainingState& state, std::vector<float>&) { state.skipped = 2; });
    CHECK(run_exit_code(options) == 0);
    CHECK(Checkpoint(checkpoint_folder(options, 40)).state().skipped == 0);
    CHECK(last_line(folder / "run/status.json").at("checkpoint") == checkpoint_folder(options, 60).string());
  }
}

TEST_CASE("a resumed run continues with the sample after the checkpoint's, also with another batch size",
          "[run_state]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.steps = 20;
  CHECK(run_exit_code(options) == 0);
  options.resume = checkpoint_folder(options, 20).string();
  options.output = (folder / "other").string();
  options.batch = 7;
  options.steps = 23;
  CHECK(run_exit_code(options) == 0);
  CHECK(Checkpoint(checkpoint_folder(options, 23)).state().samples == 20 * 5 + 3 * 7);
}

TEST_CASE("a summary has the mean of the last losses and the best validation of all starts", "[run_state]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.steps = 20;
  CHECK(run_exit_code(options) == 0);
  std::string metrics = content(folder / "run/metrics.jsonl");
  const std::string key = "\"validation_loss\":";
  const std::size_t at = metrics.find(key) + key.size();
  REQUIRE(at > key.size());
  metrics.replace(at, metrics.find(',', at) - at, "0.125");  // a simulated better loss
  write_file(folder / "run/metrics.jsonl", metrics);
  options.steps = 50;
  options.eval_every = 0;
  CHECK(run_exit_code(options) == 0);
  const auto summary = read_summary(options);
  CHECK(summary.at("best_validation_loss") == 0.125);
  CHECK(summary.at("best_validation_step") == 20);
  CHECK(summary.at("validation_loss").get<double>() > 0.5);
  std::vector<double> losses;
  std::istringstream lines(content(folder / "run/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record.contains("train_loss")) losses.push_back(record.at("train_loss"));
  }
  REQUIRE(losses.size() == 50);
  CHECK(summary.at("training_loss").get<double>() ==
        Approx(std::accumulate(losses.end() - 20, losses.end(), 0.0) / 20).margin(1e-5));
}
