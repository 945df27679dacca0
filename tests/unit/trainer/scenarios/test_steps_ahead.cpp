// SPDX-License-Identifier: Apache-2.0
// Steps on a GPU that works as late as possible: the host's requests without waiting, and the step that each
// result belongs to.
#include <dlfcn.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "catch.hpp"
#include "content.hpp"
#include "small_run.hpp"
#include "strategies/data_parallel/replica.hpp"
#include "trainer/fakes/gpu_or_doubles.hpp"

// With AddressSanitizer each of these takes a minute, and the cases on a replica run the same code.
#ifdef __SANITIZE_ADDRESS__
#define WHOLE_RUN "[.whole gpu runs]"
#else
#define WHOLE_RUN "[whole gpu runs]"
#endif

using namespace muster;
using namespace small_run_of_one;
using compute::cuda::CudaCompute;
using compute::cuda::PinnedMemory;

namespace {

/// The fake CUDA's log since the last call.
std::string take_cuda_log() {
  void* const cuda = dlopen(FAKE_CUDA_FILE, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(cuda != nullptr);
  const std::string log = reinterpret_cast<const char* (*)()>(dlsym(cuda, "fake_cuda_log"))();
  reinterpret_cast<void (*)()>(dlsym(cuda, "fake_cuda_forget"))();
  return log;
}

int occurrences(const std::string& text, const std::string& of) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(of, at)) != std::string::npos; ++at) ++count;
  return count;
}

/// Waits of a communicator between the first `count` launches of this kernel and the next ones.
std::vector<int> waits_after_each(const std::string& log, const std::string& launch, std::size_t count) {
  std::vector<int> waits;
  std::size_t at = log.find(launch);
  while (waits.size() < count && at != std::string::npos) {
    const std::size_t next = log.find(launch, at + 1);
    waits.push_back(occurrences(log.substr(at, next - at), "the host waits in cuStreamQuery"));
    at = next;
  }
  return waits;
}

Options tiny_run(const TemporaryFolder& folder) {
  Options options = small_run(folder);
  write_file(folder / "text", content(folder / "text").substr(0, 600));  // the fake GPU is slow
  options.model = {1, 1, 64, 8};
  options.batch = 4;
  options.eval_every = options.checkpoint_every = 0;
  options.device = Device::cuda;
  return options;
}

/// The fakes that give a job of one rank a GPU and NCCL.
struct FakeCudaAndNccl {
  explicit FakeCudaAndNccl(const char* cuda) : fakes("", cuda) {
    setenv("MUSTER_NCCL_LIBRARY", FAKE_NCCL_FILE, 1);
  }
  ~FakeCudaAndNccl() { unsetenv("MUSTER_NCCL_LIBRARY"); }
  TestGpu fakes;
};

/// A replica on the fakes.
struct OneReplica {
  explicit OneReplica(const char* cuda, int chunk = 0,
                      std::chrono::milliseconds timeout = std::chrono::minutes(10), int micro_batch = 0,
                      bool update_after_reduction = false)
      : on(cuda),
        job(Job::join({.operation_timeout = timeout, .device = Device::cuda})),
        options(tiny_run(folder)),
        workload(read_workload(options)),
        replica({.optimizer = options.optimizer,
                 .batch = options.batch,
                 .seed = 3,
                 .chunk = chunk,
                 .real_bytes = sizeof(bfloat16),
                 .on_device = true,
                 .micro_batch = micro_batch,
                 .update_after_reduction = update_after_reduction},
                *workload, compute, job.world(), job.host_world()) {
    replica.initialize();
  }
  void begin(std::int64_t step) { replica.begin_step(step, step * options.batch, 1e-3, {}); }

  FakeCudaAndNccl on;
  TemporaryFolder folder;
  Job job;
  Options options;
  std::unique_ptr<Workload> workload;
  CudaCompute compute{{}};
  Replica replica;
};

/// All results of a step.
std::vector<double> to_numbers(const StepResult& result) {
  CHECK(result.finite);
  CHECK(result.communication > 0);
  return {result.loss, result.gradient_norm, result.communication, result.exposed,
          static_cast<double>(result.gradient_bytes)};
}

int train_on_fakes(const Options& options, const char* cuda) {
  const FakeCudaAndNccl on(cuda);
  Job job = Job::join({.device = Device::cuda});
  int code = 0;
  try {
    code = train(options, job);
  } catch (const CollectiveAbort& ended) {
    code = ended.exit_code();
  }
  job.leave();
  return code;
}

}  // namespace

TEST_CASE("a step is enqueued without waiting, before the host waits for the last one, and has the same bits",
          "[gpu steps]") {
  constexpr std::int64_t steps = 3;
  const int chunk = GENERATE(2, 0);
  const int micro_batch = 2 - chunk;
  CAPTURE(chunk, micro_batch);
  std::vector<std::vector<double>> alone, ahead;
  std::uint64_t parameters = 0;
  {
    OneReplica one("", chunk, std::chrono::minutes(10), micro_batch);
    for (std::int64_t step = 0; step < steps; ++step) {
      one.begin(step);
      alone.push_back(to_numbers(one.replica.end_step()));
    }
    parameters = one.replica.parameter_hash();
    one.job.leave();
  }
  OneReplica one("late", chunk, std::chrono::minutes(10), micro_batch);
  REQUIRE(one.replica.max_in_flight() == 2);
  one.begin(0);  // allocates memory
  for (std::int64_t step = 1; step < steps; ++step) {
    CAPTURE(step);
    take_cuda_log();
    one.begin(step);
    const std::string asked = take_cuda_log();
    CHECK(occurrences(asked, "muster_embed on") == 2);
    CHECK(occurrences(asked, "muster_adamw on") > 5);
    CHECK((occurrences(asked, "muster_accumulate on") > 5) == (micro_batch > 0));
    CHECK(occurrences(asked, "the host waits") == 0);
    ahead.push_back(to_numbers(one.replica.end_step()));
    const std::string waited = take_cuda_log();
    CHECK(occurrences(waited, "muster_") == 0);
    CHECK(occurrences(waited, "the host waits in cuStreamQuery") == 1);  // as communicators wait
    CHECK(occurrences(waited, "the host waits") == 1);
  }
  ahead.push_back(to_numbers(one.replica.end_step()));
  CHECK(occurrences(take_cuda_log(), "the host waits") == 1);  // not before: it was still in progress
  CHECK(ahead == alone);
  CHECK(one.replica.parameter_hash() == parameters);
  one.job.leave();
}

TEST_CASE("an elastic step is updated once the host knows that it is reduced", "[gpu steps]") {
  OneReplica one("late", 0, std::chrono::minutes(10), 0, true);
  REQUIRE(one.replica.max_in_flight() == 1);
  one.begin(0);  // allocates memory
  REQUIRE(one.replica.end_step().finite);
  take_cuda_log();
  one.begin(1);
  const std::string asked = take_cuda_log();
  CHECK(occurrences(asked, "the host waits") == 1);
  const std::size_t wait = asked.find("the host waits in cuStreamQuery");  // as communicators wait
  REQUIRE(wait != std::string::npos);
  CHECK(occurrences(asked.substr(0, wait), "muster_adamw on") == 0);
  CHECK(occurrences(asked.substr(wait), "muster_adamw on") > 5);
  CHECK(asked.find("muster_embed on") < wait);
  CHECK(one.replica.end_step().finite);
  one.job.leave();
}

TEST_CASE("when two steps are in flight, the non-finite one is named, with its samples", "[gpu steps]") {
  OneReplica one("late", 2);
  REQUIRE(one.replica.step(0, 0, 1e-3, {}).finite);
  float* const parameter = one.replica.tensors().parameters.data();
  PinnedMemory good(one.compute.gpu(), sizeof(float)), bad(one.compute.gpu(), sizeof(float));
  one.compute.memory().copy_out(good.data(), parameter, sizeof(float));
  *static_cast<float*>(bad.data()) = std::numeric_limits<float>::quiet_NaN();
  const auto put = [&](const PinnedMemory& value) {
    one.compute.gpu().upload(parameter, value.data(), sizeof(float));
    one.replica.broadcast();  // to the bfloat16 copy
  };
  one.begin(1);
  put(bad);
  one.replica.begin_step(2, 8, 1e-3, {.stop = true});
  const StepResult first = one.replica.end_step();
  put(good);
  one.begin(3);
  const StepResult second = one.replica.end_step(), third = one.replica.end_step();
  CHECK(first.finite);
  CHECK_FALSE(first.any_stop);
  CHECK_FALSE(second.finite);
  CHECK(second.any_stop);
  CHECK(second.non_finite_samples.begin >= 8);
  CHECK(second.non_finite_samples.end == 12);
  CHECK(third.finite);
  CHECK_FALSE(third.any_stop);
  CHECK(third.non_finite_samples.count() == 0);
  one.job.leave();
}

TEST_CASE("when a step never ends, the wait for it has the communicator's deadline", "[gpu steps]") {
  // What the fake GPU computes counts towards the deadline, too.
  const auto started = std::chrono::steady_clock::now();
  {
    OneReplica one("");
    REQUIRE(one.replica.step(0, 0, 1e-3, {}).finite);
    one.job.leave();
  }
  const auto usual = std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - started);
  const auto deadline = std::max(std::chrono::seconds(3), 5 * usual);
  OneReplica one("", 0, deadline);
  one.begin(0);
  setenv("FAKE_CUDA", "stream_busy", 1);
  CHECK_THROWS_WITH(one.replica.end_step(), Catch::Matchers::ContainsSubstring(fmt::format(
                                                "did not complete within {} s", deadline.count())));
  setenv("FAKE_CUDA", "", 1);
}

TEST_CASE("on a device buckets have the same size in every run, even without --deterministic",
          "[gpu steps]") {
  Replica::Settings settings;
  CHECK(Replica::reducer_options(settings).bucket_bytes == 0);  // measured
  settings.on_device = true;
  CHECK(Replica::reducer_options(settings).bucket_bytes > 0);
}

TEST_CASE("when the GPU fails, the step ends with CUDA's reason and the process goes on", "[gpu steps]") {
  OneReplica one("");
  one.begin(0);
  setenv("FAKE_CUDA", "stream_error", 1);  // until the end: destructors wait for copies
  CHECK_THROWS_WITH(one.replica.end_step(),
                    Catch::Matchers::ContainsSubstring("an illegal memory access was encountered"));
}

TEST_CASE("on a late GPU a resumed run ends with the same bytes as a run that waits for every step",
          WHOLE_RUN) {
  const TemporaryFolder folder;
  Options options = tiny_run(folder);
  options.steps = 7;
  options.checkpoint_every = 5;
  options.eval_every = 6;
  CHECK(train_on_fakes(options, "") == 0);
  const auto bytes = [&](std::int64_t step) {
    return read_checkpoint_bytes(checkpoint_folder(options, step));
  };
  // Work that is due between steps is done between the right steps.
  CHECK(Checkpoint(checkpoint_folder(options, 5)).state().step == 5);
  CHECK(occurrences(content(folder / "run/metrics.jsonl"), "\"step\":6,\"validation_loss\"") == 1);
  const std::string at_5 = bytes(5), at_7 = bytes(7);

  options.output = (folder / "late").string();
  options.status = (folder / "status").string();
  std::thread sender = signal_during_training(options, SIGTERM);
  CHECK(train_on_fakes(options, "late") == 0);
  sender.join();
  const auto status = last_line(options.status);
  CHECK(status.at("state") == "unfinished");
  const std::int64_t step = status.at("step");
  CHECK(step < 7);
  CHECK(last_line(folder / "late/metrics.jsonl").at("step") == step);
  CHECK(status.at("checkpoint") == checkpoint_folder(options, step).string());
  CHECK(train_on_fakes(options, "late") == 0);
  CHECK(bytes(5) == at_5);
  CHECK(bytes(7) == at_7);
}

TEST_CASE("a run on a late GPU is a step ahead, and counts and names diverging steps as a run that waits",
          WHOLE_RUN) {
  const TemporaryFolder folder;
  Options options = tiny_run(folder);
  options.validation_fraction = 0;
  options.learning_rate = 1e30;
  options.optimizer.clip = 0;
  options.steps = 4;
  options.stop_after_skipped = 100;
  CHECK(train_on_fakes(options, "") == 0);
  const std::string whole = read_checkpoint_bytes(checkpoint_folder(options, 4));
  const std::int64_t skipped = Checkpoint(checkpoint_folder(options, 4)).state().skipped;
  REQUIRE(skipped >= 3);
  options.output = (folder / "late").string();
  take_cuda_log();
  CHECK(train_on_fakes(options, "late") == 0);
  // It waits for a step after it has begun the next.
  // The first is the rehearsal of --autotune.
  CHECK(waits_after_each(take_cuda_log(), "muster_embed on", 4) == std::vector{0, 0, 1, 1});
  CHECK(read_checkpoint_bytes(checkpoint_folder(options, 4)) == whole);
  CHECK(occurrences(content(folder / "late/metrics.jsonl"), "skipped") == skipped);

  options.output = (folder / "given up").string();
  options.stop_after_skipped = 2;
  CHECK(train_on_fakes(options, "late") == 1);
  const std::int64_t last = 4 - skipped + 2;
  CHECK(last_line(folder / "given up/status.json").at("step") == last);
  CHECK(last_line(folder / "given up/metrics.jsonl").at("step") == last);
}

TEST_CASE("local SGD on a late GPU has the bits of one that waits, and those of a resumed run", WHOLE_RUN) {
  const TemporaryFolder folder;
  Options options = tiny_run(folder);
  options.strategy = "local-sgd";
  options.outer_optimizer = "nesterov";
  options.steps = 3;
  options.sync_every = options.checkpoint_every = 2;
  options.schedule = "constant";
  CHECK(train_on_fakes(options, "") == 0);
  const auto bytes = [&] { return read_checkpoint_bytes(checkpoint_folder(options, 3)); };
  const std::string whole = bytes();
  std::filesystem::remove_all(checkpoint_folder(options, 3));
  CHECK(train_on_fakes(options, "late") == 0);  // from step 2
  CHECK(bytes() == whole);
  options.output = (folder / "late").string();
  CHECK(train_on_fakes(options, "late") == 0);
  CHECK(bytes() == whole);
}

TEST_CASE("a resumed run uses the algorithms of its first start, also when others have become faster",
          WHOLE_RUN) {
  const TemporaryFolder folder;
  Options options = tiny_run(folder);
  options.steps = 2;
  options.checkpoint_every = 1;
  const auto train_with = [&](const std::string& output, const char* times) {
    options.output = (folder / output).string();
    setenv("FAKE_CUBLASLT_TIMES", times, 1);
    CHECK(train_on_fakes(options, "") == 0);
    unsetenv("FAKE_CUBLASLT_TIMES");
    return content(checkpoint_folder(options, 2) / "tensors.safetensors");
  };
  const std::string whole = train_with("run", "9 9 1");
  CHECK(content(folder / "run/autotune.json") == content(checkpoint_folder(options, 1) / "autotune.json"));
  CHECK(train_with("other", "9 1 9") != whole);
  options.output = (folder / "run").string();
  std::filesystem::remove_all(checkpoint_folder(options, 2));
  CHECK(train_with("run", "9 1 9") == whole);
  std::filesystem::remove_all(checkpoint_folder(options, 2));
  options.autotune = false;
  CHECK(train_with("run", "9 1 9") != whole);
  CHECK_FALSE(std::filesystem::exists(checkpoint_folder(options, 2) / "autotune.json"));
}
