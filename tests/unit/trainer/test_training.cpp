// SPDX-License-Identifier: Apache-2.0
// The whole loop, as a job of one rank.
#include <signal.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "count_elements.hpp"
#include "model_fixture.hpp"
#include "run/trainer.hpp"
#include "small_run.hpp"
#include "temporary_folder.hpp"
#include "training/collective_errors.hpp"
#include "training/replica.hpp"

using namespace muster;
using namespace small_run_of_one;

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
  CHECK(std::filesystem::file_size(checkpoint_of(options, 60) / "tensors.safetensors") > 100000);
  CHECK(std::filesystem::exists(checkpoint_of(options, 40)));
  CHECK_FALSE(std::filesystem::exists(checkpoint_of(options, 20)));
  const auto status = last_line(folder / "run/status.json");
  CHECK(status.at("state") == "finished");
  CHECK(status.at("step") == 60);
  CHECK(status.at("checkpoint") == checkpoint_of(options, 60).string());

  const auto summary = nlohmann::json::parse(read_file(folder / "run/summary.json"));
  CHECK(summary.at("ended") == "finished");
  CHECK(summary.at("steps") == 60);
  CHECK(summary.at("validation_loss") == Approx(last.at("validation_loss").get<double>()).margin(1e-6));
  CHECK(summary.at("best_validation_loss").get<double>() <= summary.at("validation_loss").get<double>());
  CHECK(summary.at("training_loss").get<double>() < 3);
  CHECK(summary.at("world_size") == 1);
  CHECK(summary.at("machine").at("ranks").size() == 1);
  const auto& memory = summary.at("memory");
  CHECK(memory.at("segments").at("parameters").get<std::uint64_t>() > 80'000);
  CHECK(memory.at("planned_bytes").get<std::uint64_t>() >
        7 * memory.at("segments").at("parameters").get<std::uint64_t>());
  CHECK(memory.at("peak_resident_bytes").get<std::uint64_t>() >
        memory.at("planned_bytes").get<std::uint64_t>());
  CHECK(memory.at("free_bytes").get<std::uint64_t>() > memory.at("planned_bytes").get<std::uint64_t>());
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

TEST_CASE("a run in bfloat16 learns as one in float32 does, and goes on in it", "[training]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  const auto loss = [&](const char* output) {
    options.output = (folder / output).string();
    CHECK(train_alone(options) == 0);
    return last_line(std::filesystem::path(options.output) / "metrics.jsonl")
        .at("validation_loss")
        .get<double>();
  };
  const double float32 = loss("fp32");
  options.dtype = "bf16";
  options.mfu = true;
  const double rounded = loss("bf16");
  CHECK(rounded != float32);
  CHECK(rounded == Approx(float32).margin(0.05));  // of the 5 nats that both have learned
  const auto summary = nlohmann::json::parse(read_file(folder / "bf16/summary.json"));
  CHECK(summary.at("machine").at("dtype") == "bf16");
  CHECK(Checkpoint(checkpoint_of(options, 60)).state().dtype == "bf16");
  options.steps = 80;
  options.mfu = false;
  CHECK(loss("fp32") < float32);  // its float32 checkpoint is a bfloat16 run's start
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
  auto float_compute = test_compute<float>();
  auto bfloat16_compute = test_compute<bfloat16>();
  const auto workload = read_workload(options);
  const Replica::Settings settings{options.adamw, options.batch, 3};
  const bool rounds = GENERATE(false, true);
  const auto build = [&] {
    return rounds ? Replica(settings, *workload, bfloat16_compute, job.host_world())
                  : Replica(settings, *workload, float_compute, job.host_world());
  };
  const auto train_steps = [&](Replica& replica, std::int64_t from, std::int64_t to) {
    for (std::int64_t step = from; step < to; ++step) {
      REQUIRE(replica.step(step, step * options.batch, 1e-3 * static_cast<double>(step % 7), {}).finite);
    }
  };
  Replica whole = build();
  whole.initialize();
  train_steps(whole, 0, 30);
  TrainingState state;
  state.step = 30;
  state.samples = 150;
  write_checkpoint(folder / "checkpoint", state, whole.table(), whole.tensors());
  train_steps(whole, 30, 60);

  Replica resumed = build();
  const Checkpoint checkpoint(folder / "checkpoint");
  checkpoint.read(resumed.table(), resumed.tensors());
  resumed.broadcast();
  CHECK(checkpoint.state().samples == 150);
  train_steps(resumed, 30, 60);
  CHECK(resumed.parameter_hash() == whole.parameter_hash());
  job.leave();
}

TEST_CASE("a run whose newest checkpoint is damaged goes on from the one before, with the same bytes",
          "[training]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  CHECK(train_alone(options) == 0);
  const std::string whole = bytes_of(checkpoint_of(options, 60));
  std::filesystem::resize_file(checkpoint_of(options, 60) / "tensors.safetensors", 5000);
  CHECK(train_alone(options) == 0);
  CHECK(bytes_of(checkpoint_of(options, 60)) == whole);
}

TEST_CASE("a checkpoint that cannot be written beside training ends the run soon, not at its end",
          "[training]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.steps = 3000;
  options.eval_every = 0;
  // A stand-in for a full disk: the process may write no file as long as the tensors, and all others.
  struct rlimit before {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  struct rlimit small = before;
  small.rlim_cur = 200'000;
  ::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  int code = 0;
  try {
    train_alone(options);
  } catch (const EndedTogether& ended) {
    code = ended.exit_code();
  }
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(code == 71);
  const auto status = last_line(folder / "run/status.json");
  CHECK(status.at("state") == "failed");
  CHECK(status.at("step") < 3000);
  CHECK(status.at("checkpoint").is_null());
  CHECK(std::filesystem::is_empty(folder / "run/checkpoints"));
}

TEST_CASE("where not even a status can be written, no status says that the run goes on", "[training]") {
  const TemporaryFolder folder;
  const Options options = small_run(folder);
  std::filesystem::create_directory(options.output);
  write_file(folder / "run/status.json", "{\"state\":\"running\"}\n");
  std::filesystem::create_directory(folder / "run/status.json.partial");  // in the way of a new one
  CHECK(code_of(options) == 71);
  CHECK_FALSE(std::filesystem::exists(folder / "run/status.json"));
}

TEST_CASE("a run is not mistaken for another", "[training]") {
  const TemporaryFolder folder;
  const Options good = small_run(folder);
  CHECK(train_alone(good) == 0);
  const std::string whole = bytes_of(checkpoint_of(good, 60));
  Options options = good;
  options.seed = 8;
  CHECK(code_of(options) == 64);
  options = good;
  options.batch = 6;
  CHECK(code_of(options) == 64);
  options = good;
  options.model.layers = 2;
  CHECK(code_of(options) == 64);
  options = good;
  options.validation_fraction = 0.05;  // it would train on what was held out
  CHECK(code_of(options) == 64);
  CHECK(bytes_of(checkpoint_of(good, 60)) == whole);

  SECTION("asked by name, it starts from another run's parameters; that run's checkpoints are set aside") {
    options = good;
    options.seed = 8;
    options.steps = 70;
    options.resume = checkpoint_of(good, 60).string();
    CHECK(code_of(options) == 0);
    CHECK(std::filesystem::exists(checkpoint_of(good, 70)));
    CHECK(Checkpoint(checkpoint_of(good, 60)).state().seed == 8);
    CHECK(bytes_of(folder / "run/checkpoints.before-1/step-00000060") == whole);
    CHECK(last_line(folder / "run/checkpoints.before-1/metrics.jsonl").at("step") == 60);
    CHECK(read_file(folder / "run/metrics.jsonl").find("{\"step\":20,") != std::string::npos);
  }
  SECTION("what started from another run's checkpoint goes on from its own, however early it ends") {
    options = good;
    options.steps = 65;
    options.checkpoint_every = 0;
    options.output = (folder / "other").string();
    options.resume = checkpoint_of(good, 60).string();
    Options killed = options;
    options.status = (folder / "none/status").string();  // cannot be written: it ends before its first step
    CHECK(code_of(options) == 71);
    killed.resume = "auto";
    CHECK(code_of(killed) == 0);
    CHECK(last_line(folder / "other/metrics.jsonl").at("step") == 65);
    CHECK(read_file(folder / "other/metrics.jsonl").find("{\"step\":20,") == std::string::npos);
    options = good;
    options.steps = 65;
    CHECK(code_of(options) == 0);
    CHECK(bytes_of(checkpoint_of(killed, 65)) == bytes_of(checkpoint_of(good, 65)));
  }
  SECTION("anew") {
    options = good;
    options.resume = "off";
    CHECK(code_of(options) == 0);
    CHECK(bytes_of(checkpoint_of(good, 60)) == whole);
    CHECK(bytes_of(folder / "run/checkpoints.before-1/step-00000060") == whole);
    CHECK(std::filesystem::exists(folder / "run/checkpoints.before-1/report.html"));
  }
}

TEST_CASE("runs that cannot start end with the code of their fault", "[training]") {
  const TemporaryFolder folder;
  const Options good = small_run(folder);
  Options options = good;
  options.data = (folder / "missing").string();
  CHECK(code_of(options) == 64);
  options = good;
  std::filesystem::create_directory(folder / "images");
  write_file(folder / "images/train-images-idx3-ubyte", std::string(1000, 'x'));
  options.data = (folder / "images").string();  // as a text it would do
  CHECK(code_of(options) == 64);
  options = good;
  options.output = "/dev/full";
  CHECK(code_of(options) == 71);
  options = good;
  options.resume = (folder / "missing").string();
  CHECK(code_of(options) == 64);
  options = good;
  options.model.context = 60000;
  CHECK(code_of(options) == 64);
  // Some 800 GB.
  options = good;
  options.model = {24, 2, 128, 24};
  options.batch = 170000;
  CHECK(code_of(options) == 64);
  CHECK_FALSE(std::filesystem::exists(checkpoint_of(options, 60)));
}
