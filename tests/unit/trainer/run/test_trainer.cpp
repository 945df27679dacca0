// SPDX-License-Identifier: Apache-2.0
// The whole training loop, as a job of one rank.
#include <signal.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "content.hpp"
#include "run/trainer.hpp"
#include "strategies/data_parallel/replica.hpp"
#include "strategies/memory_estimate.hpp"
#include "temporary_folder.hpp"
#include "trainer/models/model_fixture.hpp"
#include "trainer/report/count_elements.hpp"
#include "trainer/scenarios/small_run.hpp"
#include "training/collective_errors.hpp"

using namespace muster;
using namespace small_run_of_one;

TEST_CASE("a run learns, and writes metrics, a checkpoint, a plot, a summary and a report", "[training]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.mfu = options.tensorboard = true;
  options.origins["steps"] = "run.toml:7 <&>";
  CHECK(train_alone(options) == 0);
  const auto last = last_line(folder / "run/metrics.jsonl");
  CHECK(last.at("step") == 60);
  CHECK(last.at("validation_loss").get<double>() < 2.5);  // guessing has 5.5
  CHECK(last.at("validation_count") == 400 * 45 / 10);
  CHECK(content(folder / "run/loss.svg").find("validation (last") != std::string::npos);
  CHECK(std::filesystem::file_size(checkpoint_folder(options, 60) / "tensors.safetensors") > 100000);
  CHECK(std::filesystem::exists(checkpoint_folder(options, 40)));
  CHECK_FALSE(std::filesystem::exists(checkpoint_folder(options, 20)));
  const auto status = last_line(folder / "run/status.json");
  CHECK(status.at("state") == "finished");
  CHECK(status.at("step") == 60);
  CHECK(status.at("checkpoint") == checkpoint_folder(options, 60).string());

  const auto summary = nlohmann::json::parse(content(folder / "run/summary.json"));
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

  const std::string report = content(folder / "run/report.html");
  const std::size_t body = report.find("<body>");
  REQUIRE(body != std::string::npos);
  CHECK(count_elements(report.substr(body, report.find("</html>") - body)) > 100);
  CHECK(report.find("run.toml:7 &lt;&amp;&gt;") != std::string::npos);
  for (const char* outside : {"<script", "<link", "@import", "url(", "src=", "href="})
    CHECK(report.find(outside) == std::string::npos);
  CHECK(std::filesystem::exists(folder / "run/tensorboard"));
}

TEST_CASE("a run in bfloat16 learns as well as one in float32, and can be resumed", "[training]") {
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
  CHECK(rounded == Approx(float32).margin(0.05));  // both losses fell by about 5 nats
  const auto summary = nlohmann::json::parse(content(folder / "bf16/summary.json"));
  CHECK(summary.at("machine").at("dtype") == "bf16");
  CHECK(Checkpoint(checkpoint_folder(options, 60)).state().dtype == "bf16");
  options.steps = 80;
  options.mfu = false;
  CHECK(loss("fp32") < float32);  // a bfloat16 run, resumed from the float32 checkpoint
}

TEST_CASE("without --mfu and --tensorboard, nothing is measured or written for them", "[training]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.steps = 2;
  CHECK(train_alone(options) == 0);
  CHECK_FALSE(std::filesystem::exists(folder / "run/tensorboard"));
  const auto summary = nlohmann::json::parse(content(folder / "run/summary.json"));
  CHECK(summary.at("peak_flops").is_null());
  CHECK(summary.at("mfu").is_null());
  CHECK(last_line(folder / "run/metrics.jsonl").at("step") == 2);
}

TEST_CASE("training resumes from a checkpoint with the same bits", "[training]") {
  const TemporaryFolder folder;
  const Options options = small_run(folder);
  Job job = Job::join({.device = Device::cpu});
  auto float_compute = test_compute<float>();
  auto bfloat16_compute = test_compute<bfloat16>();
  const auto workload = read_workload(options);
  const Replica::Settings settings{options.optimizer, options.batch, 3};
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

TEST_CASE("when the newest checkpoint is damaged, a run resumes from the one before, with the same bytes",
          "[training]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  CHECK(train_alone(options) == 0);
  const std::string whole = read_checkpoint_bytes(checkpoint_folder(options, 60));
  std::filesystem::resize_file(checkpoint_folder(options, 60) / "tensors.safetensors", 5000);
  CHECK(train_alone(options) == 0);
  CHECK(read_checkpoint_bytes(checkpoint_folder(options, 60)) == whole);
}

TEST_CASE(
    "when a checkpoint cannot be written during training, the run ends soon and not after its last step",
    "[training]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.steps = 3000;
  options.eval_every = 0;
  // A simulated full disk: the process can write all files except one as large as the tensors.
  struct rlimit before {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  struct rlimit small = before;
  small.rlim_cur = 200'000;
  ::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  int code = 0;
  try {
    train_alone(options);
  } catch (const CollectiveAbort& ended) {
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

TEST_CASE("when not even the status can be written, no status file says that the run is running",
          "[training]") {
  const TemporaryFolder folder;
  const Options options = small_run(folder);
  std::filesystem::create_directory(options.output);
  write_file(folder / "run/status.json", "{\"state\":\"running\"}\n");
  std::filesystem::create_directory(folder / "run/status.json.partial");  // prevents a new status file
  CHECK(run_exit_code(options) == 71);
  CHECK_FALSE(std::filesystem::exists(folder / "run/status.json"));
}

TEST_CASE("a run is not mistaken for another", "[training]") {
  const TemporaryFolder folder;
  const Options good = small_run(folder);
  CHECK(train_alone(good) == 0);
  const std::string whole = read_checkpoint_bytes(checkpoint_folder(good, 60));
  Options options = good;
  options.seed = 8;
  CHECK(run_exit_code(options) == 64);
  options = good;
  options.batch = 6;
  CHECK(run_exit_code(options) == 64);
  options = good;
  options.model.layers = 2;
  CHECK(run_exit_code(options) == 64);
  options = good;
  options.validation_fraction = 0.05;  // it would train on held-out data
  CHECK(run_exit_code(options) == 64);
  CHECK(read_checkpoint_bytes(checkpoint_folder(good, 60)) == whole);

  SECTION("--resume=FOLDER starts from another run's parameters; earlier checkpoints are moved aside") {
    options = good;
    options.seed = 8;
    options.steps = 70;
    options.resume = checkpoint_folder(good, 60).string();
    CHECK(run_exit_code(options) == 0);
    CHECK(std::filesystem::exists(checkpoint_folder(good, 70)));
    CHECK(Checkpoint(checkpoint_folder(good, 60)).state().seed == 8);
    CHECK(read_checkpoint_bytes(folder / "run/checkpoints.before-1/step-00000060") == whole);
    CHECK(last_line(folder / "run/checkpoints.before-1/metrics.jsonl").at("step") == 60);
    CHECK(content(folder / "run/metrics.jsonl").find("{\"step\":20,") != std::string::npos);
  }
  SECTION("--resume=FOLDER of an own checkpoint continues the metrics, also from inside the renamed folder") {
    options = good;
    options.steps = 70;
    options.resume = checkpoint_folder(good, 60).filename().string();
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(checkpoint_folder(good, 60).parent_path());
    const int code = run_exit_code(options);
    std::filesystem::current_path(before);
    CHECK(code == 0);
    CHECK(last_line(folder / "run/metrics.jsonl").at("step") == 70);
    CHECK(content(folder / "run/metrics.jsonl").find("{\"step\":20,") != std::string::npos);
    CHECK(content(folder / "run/metrics.jsonl").find("{\"step\":60,") != std::string::npos);
  }
  SECTION("a run that started from another run's checkpoint resumes from its own, however early it ended") {
    options = good;
    options.steps = 65;
    options.checkpoint_every = 0;
    options.output = (folder / "other").string();
    options.resume = checkpoint_folder(good, 60).string();
    Options killed = options;
    options.status =
        (folder / "none/status").string();  // cannot be written: the run ends before its first step
    CHECK(run_exit_code(options) == 71);
    killed.resume = "auto";
    CHECK(run_exit_code(killed) == 0);
    CHECK(last_line(folder / "other/metrics.jsonl").at("step") == 65);
    CHECK(content(folder / "other/metrics.jsonl").find("{\"step\":20,") == std::string::npos);
    options = good;
    options.steps = 65;
    CHECK(run_exit_code(options) == 0);
    CHECK(read_checkpoint_bytes(checkpoint_folder(killed, 65)) ==
          read_checkpoint_bytes(checkpoint_folder(good, 65)));
  }
  SECTION("anew") {
    options = good;
    options.resume = "off";
    CHECK(run_exit_code(options) == 0);
    CHECK(read_checkpoint_bytes(checkpoint_folder(good, 60)) == whole);
    CHECK(read_checkpoint_bytes(folder / "run/checkpoints.before-1/step-00000060") == whole);
    CHECK(std::filesystem::exists(folder / "run/checkpoints.before-1/report.html"));
  }
}

TEST_CASE("micro-batches give the gradients and the loss of the whole batch, with less memory",
          "[training]") {
  const TemporaryFolder folder;
  const Options options = small_run(folder);
  Job job = Job::join({.device = Device::cpu});
  auto compute = test_compute<float>();
  const auto workload = read_workload(options);
  Replica::Settings settings{options.optimizer, options.batch, 3};
  settings.optimizer.kind = OptimizerKind::sgd;  // an update in proportion to the gradient
  Replica whole(settings, *workload, compute, job.host_world());
  whole.initialize();
  const StepResult expected = whole.step(0, 0, 1e-2, {});
  for (const int micro_batch : {1, 2, 3, options.batch, options.batch + 1}) {
    CAPTURE(micro_batch);
    settings.micro_batch = micro_batch;
    Replica parts(settings, *workload, compute, job.host_world());
    parts.initialize();
    const StepResult result = parts.step(0, 0, 1e-2, {});
    CHECK(result.loss == Approx(expected.loss).epsilon(1e-6));
    CHECK(result.gradient_norm == Approx(expected.gradient_norm).epsilon(1e-5));
    const auto found = parts.tensors().parameters, wanted = whole.tensors().parameters;
    double distance = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      distance = std::max(distance, std::abs(double(found[i]) - double(wanted[i])));
    CHECK(distance < 1e-6);
    CHECK(parts.validate_share().loss.value() == Approx(whole.validate_share().loss.value()).epsilon(1e-5));
    CHECK((parts.parameter_hash() == whole.parameter_hash()) == (micro_batch >= options.batch));
    std::uint64_t planned = 0;
    for (const MemorySegment& segment : estimate_memory(*workload, settings, 0, 1))
      planned += segment.name == "copy for checkpoints" ? 0 : segment.bytes;
    CHECK(planned == parts.bytes());
    if (micro_batch <= 2) CHECK(parts.bytes() < whole.bytes());
  }
  job.leave();
}

TEST_CASE("label smoothing changes the training loss, and not the validation loss", "[training]") {
  const TemporaryFolder folder;
  const Options options = small_run(folder);
  Job job = Job::join({.device = Device::cpu});
  auto hard_compute = test_compute<float>(), smooth_compute = test_compute<float>();
  const auto workload = read_workload(options);
  Replica::Settings settings{options.optimizer, options.batch, 3};
  Replica hard(settings, *workload, hard_compute, job.host_world());
  settings.label_smoothing = 0.5;
  Replica smooth(settings, *workload, smooth_compute, job.host_world());
  hard.initialize();
  smooth.initialize();
  CHECK(hard.validate_share().loss.sum == smooth.validate_share().loss.sum);
  const double loss = hard.step(0, 0, 1e-2, {}).loss;
  CHECK(loss != smooth.step(0, 0, 1e-2, {}).loss);
  CHECK(hard.parameter_hash() != smooth.parameter_hash());
  job.leave();
}

TEST_CASE("a run with SGD learns, resumes, and does not resume with another optimizer", "[training]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.optimizer_name = "sgd";
  options.optimizer.kind = OptimizerKind::sgd;
  options.learning_rate = 0.1;
  CHECK(train_alone(options) == 0);
  options.steps *= 2;
  CHECK(train_alone(options) == 0);
  const auto last = last_line(folder / "run/metrics.jsonl");
  CHECK(last.at("step") == 120);
  CHECK(last.at("validation_loss").get<double>() < 3.5);  // guessing has 5.5
  options.optimizer_name = "adamw";
  options.optimizer.kind = OptimizerKind::adamw;
  options.steps *= 2;
  CHECK(run_exit_code(options) == 64);
}

TEST_CASE("runs that cannot start end with the exit code of their error", "[training]") {
  const TemporaryFolder folder;
  const Options good = small_run(folder);
  Options options = good;
  options.data = (folder / "missing").string();
  CHECK(run_exit_code(options) == 64);
  options = good;
  std::filesystem::create_directory(folder / "images");
  write_file(folder / "images/train-images-idx3-ubyte", std::string(1000, 'x'));
  options.data = (folder / "images").string();  // it would be valid as a text
  CHECK(run_exit_code(options) == 64);
  options = good;
  options.output = "/dev/full";
  CHECK(run_exit_code(options) == 71);
  options = good;
  options.resume = (folder / "missing").string();
  CHECK(run_exit_code(options) == 64);
  options = good;
  options.model.context = 60000;
  CHECK(run_exit_code(options) == 64);
  // About 800 GB.
  options = good;
  options.model = {24, 2, 128, 24};
  options.batch = 170000;
  CHECK(run_exit_code(options) == 64);
  CHECK_FALSE(std::filesystem::exists(checkpoint_folder(options, 60)));
}
