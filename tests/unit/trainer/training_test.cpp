// SPDX-License-Identifier: Apache-2.0
// The whole loop, as a job of one rank.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "agreement.hpp"
#include "catch.hpp"
#include "count_elements.hpp"
#include "model_fixture.hpp"
#include "replica.hpp"
#include "temporary_folder.hpp"
#include "trainer.hpp"

using namespace muster;

namespace {

Options small_run(const TemporaryFolder& folder) {
  Options options;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "the quick brown fox jumps over the lazy dog; ";
  write_file(folder / "text", text);
  options.data = (folder / "text").string();
  options.output = (folder / "run").string();
  options.model = {1, 2, 32, 24};
  options.batch = 5;
  options.steps = 60;
  options.warmup = 5;
  options.learning_rate = 1e-2;
  options.eval_every = 20;
  options.checkpoint_every = 20;
  options.log_every = 1000;
  options.device = Device::cpu;
  options.threads = 1;
  options.mfu = options.tensorboard = false;
  return options;
}

int train_alone(const Options& options) {
  Job job = Job::join({.device = Device::cpu});
  const int code = train(options, job);
  job.leave();
  return code;
}

nlohmann::json last_line(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  return nlohmann::json::parse(text.substr(text.rfind('\n', text.size() - 2) + 1));
}

}  // namespace

TEST_CASE("a run learns, and leaves metrics, a checkpoint, a plot, a summary and a report", "[training]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.mfu = options.tensorboard = true;
  options.origins["steps"] = "run.toml:7 <&>";
  CHECK(train_alone(options) == 0);
  const auto last = last_line(folder / "run/metrics.jsonl");
  CHECK(last.at("step") == 60);
  CHECK(last.at("validation_loss").get<double>() < 2.5);  // guessing has 5.5
  CHECK(last.at("validation_count") == 400 * 45 / 10);
  CHECK(read_file(folder / "run/loss.svg").find("validation (last") != std::string::npos);
  CHECK(std::filesystem::file_size(folder / "run/checkpoint.safetensors") > 100000);

  const auto summary = nlohmann::json::parse(read_file(folder / "run/summary.json"));
  CHECK(summary.at("ended") == "finished");
  CHECK(summary.at("steps") == 60);
  CHECK(summary.at("validation_loss") == Approx(last.at("validation_loss").get<double>()).margin(1e-6));
  CHECK(summary.at("best_validation_loss").get<double>() <= summary.at("validation_loss").get<double>());
  CHECK(summary.at("training_loss").get<double>() < 3);
  CHECK(summary.at("world_size") == 1);
  CHECK(summary.at("machine").at("ranks").size() == 1);
  const double peak = summary.at("peak_flops").get<double>(),
               rate = summary.at("tokens_per_second").get<double>();
  CHECK(peak > 0);
  CHECK(summary.at("mfu").get<double>() == Approx(rate * summary.at("flops_per_token").get<double>() / peak));
  CHECK(summary.at("wall_seconds").get<double>() >= summary.at("training_seconds").get<double>());

  const std::string report = read_file(folder / "run/report.html");
  const std::size_t body = report.find("<body>");
  REQUIRE(body != std::string::npos);
  CHECK(count_elements(report.substr(body, report.find("</html>") - body)) > 100);
  CHECK(report.find("run.toml:7 &lt;&amp;&gt;") != std::string::npos);
  for (const char* outside : {"<script", "<link", "@import", "url(", "src=", "href="})
    CHECK(report.find(outside) == std::string::npos);
  CHECK(std::filesystem::exists(folder / "run/tensorboard"));
}

TEST_CASE("what is not wanted is not measured and not written", "[training]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.steps = 2;
  CHECK(train_alone(options) == 0);
  CHECK_FALSE(std::filesystem::exists(folder / "run/tensorboard"));
  const auto summary = nlohmann::json::parse(read_file(folder / "run/summary.json"));
  CHECK(summary.at("peak_flops").is_null());
  CHECK(summary.at("mfu").is_null());
  CHECK(last_line(folder / "run/metrics.jsonl").at("step") == 2);
}

TEST_CASE("training goes on from a checkpoint with the same bits", "[training]") {
  const TemporaryFolder folder;
  const Options options = small_run(folder);
  Job job = Job::join({.device = Device::cpu});
  auto compute = test_compute<float>();
  const auto workload = read_workload(options);
  const Replica::Settings settings{options.adamw, options.batch, 3};
  const auto train_steps = [&](Replica& replica, std::int64_t from, std::int64_t to) {
    for (std::int64_t step = from; step < to; ++step) {
      REQUIRE(replica.step(step, step * options.batch, 1e-3 * static_cast<double>(step % 7), {}).finite);
    }
  };
  Replica whole(settings, *workload, compute, job.host_world());
  whole.initialize();
  train_steps(whole, 0, 30);
  const TrainingState state{30, 150, 3, options.batch, workload->data_hash(), workload->model_text()};
  write_checkpoint(folder / "checkpoint", state, whole.table(), whole.tensors());
  train_steps(whole, 30, 60);

  Replica resumed(settings, *workload, compute, job.host_world());
  CHECK(read_checkpoint(folder / "checkpoint", workload->model_text(), resumed.table(), resumed.tensors())
            .samples == 150);
  train_steps(resumed, 30, 60);
  CHECK(resumed.parameter_hash() == whole.parameter_hash());
  job.leave();
}

TEST_CASE("a signal stops a run after a step, with a checkpoint from which it ends as if never stopped",
          "[training]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.steps = 1500;
  options.eval_every = options.checkpoint_every = 0;
  CHECK(train_alone(options) == 0);
  const std::string whole = read_file(folder / "run/checkpoint.safetensors");

  options.output = (folder / "stopped").string();
  options.checkpoint_every = 10;
  std::thread sender([&] {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!std::filesystem::exists(folder / "stopped/checkpoint.safetensors") &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ::kill(::getpid(), SIGTERM);
  });
  CHECK(train_alone(options) == 128 + SIGTERM);
  sender.join();
  CHECK(last_line(folder / "stopped/metrics.jsonl").at("step") < 1500);
  options.checkpoint_every = 0;
  CHECK(train_alone(options) == 0);
  CHECK(read_file(folder / "stopped/checkpoint.safetensors") == whole);
}

TEST_CASE("a diverging run stops before the update and says so", "[training]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.learning_rate = 1e30;
  options.adamw.clip = 0;
  try {
    train_alone(options);
    FAIL("went on");
  } catch (const EndedTogether& ended) {
    CHECK(ended.exit_code() == 1);
  }
}

TEST_CASE("runs that cannot start end with the code of their fault", "[training]") {
  const TemporaryFolder folder;
  const Options good = small_run(folder);
  const auto code = [](const Options& options) {
    try {
      return train_alone(options);
    } catch (const EndedTogether& ended) {
      return ended.exit_code();
    }
  };
  Options options = good;
  options.data = (folder / "missing").string();
  CHECK(code(options) == 64);
  options = good;
  options.output = "/dev/full";
  CHECK(code(options) == 71);
  options = good;
  options.resume = (folder / "missing").string();
  CHECK(code(options) == 71);
  options = good;
  options.model.context = 60000;
  CHECK(code(options) == 64);
}
