// SPDX-License-Identifier: Apache-2.0
// Optimizer offload on a fake GPU.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "content.hpp"
#include "strategies/central_storage/central_storage.hpp"
#include "trainer/fakes/gpu_or_doubles.hpp"
#include "trainer/scenarios/small_run.hpp"

// Of LeakSanitizer, in a build with it.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
__attribute__((weak)) void __lsan_disable();
__attribute__((weak)) void __lsan_enable();
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
}

using namespace muster;
using namespace small_run_of_one;
using compute::cuda::CudaCompute;

namespace {

struct OffloadedGpt {
  explicit OffloadedGpt(const char* cuda,
                        std::chrono::milliseconds wait_limit = compute::cuda::Gpu::default_wait_limit)
      : on("", cuda), compute({true, wait_limit}) {
    storage.initialize();
    storage.broadcast();
  }
  StepResult step(std::int64_t number) { return storage.step(number, number * options.batch, 1e-2, {}); }

  static Options tiny_run(const TemporaryFolder& folder) {
    Options options = small_run(folder);
    write_file(folder / "text", content(folder / "text").substr(0, 600));  // the fake GPU is slow
    options.model = {1, 1, 64, 8};
    options.batch = 4;
    return options;
  }

  TestGpu on;
  TemporaryFolder folder;
  Job job = Job::join({.device = Device::cpu});
  Options options = tiny_run(folder);
  std::unique_ptr<Workload> workload = read_workload(options);
  CudaCompute compute;
  CentralStorage storage{{0, "n0", 1},
                         {options.optimizer, options.batch, 3, 0, false, sizeof(bfloat16)},
                         *workload,
                         compute,
                         job.host_world()};
};

// The memory of a hung GPU is not freed, so what is allocated meanwhile is not looked for.
struct ExpectedLeak {
  ExpectedLeak() {
    if (__lsan_disable != nullptr) __lsan_disable();
  }
  ~ExpectedLeak() {
    if (__lsan_enable != nullptr) __lsan_enable();
  }
};

/// The parameters' hash, and the validation losses after each step, whose wait is for the main stream alone.
std::pair<std::uint64_t, std::vector<double>> train_offloaded(const char* cuda) {
  OffloadedGpt gpt(cuda);
  std::vector<double> losses;
  for (int number = 0; number < 3; ++number) {
    CHECK(gpt.step(number).finite);
    losses.push_back(gpt.storage.validate_share().loss.sum);
  }
  const std::uint64_t hash = gpt.storage.parameter_hash();
  gpt.job.leave();
  return {hash, losses};
}

}  // namespace

TEST_CASE("offloaded steps have the same bits however late the GPU works", "[gpu steps]") {
  CHECK(train_offloaded("late") == train_offloaded(""));
}

TEST_CASE("an offloaded state can be replaced while the GPU still copies the last one", "[gpu steps]") {
  OffloadedGpt gpt("late");
  CHECK(gpt.step(0).finite);
  const TrainingTensors own = gpt.storage.tensors();
  std::vector<float> parameters(own.parameters.begin(), own.parameters.end()),
      moment1(own.moment1.begin(), own.moment1.end()), moment2(own.moment2.begin(), own.moment2.end());
  for (float& value : parameters) value *= 2;
  gpt.storage.scatter_state({parameters, moment1, moment2, {}});
  CHECK(gpt.step(1).finite);
  gpt.job.leave();
}

TEST_CASE("when the GPU's copies never end, an offloaded step ends after the limit", "[gpu steps]") {
  const ExpectedLeak of_this_test;
  // What the fake GPU computes counts towards the limit, too.
  const auto started = std::chrono::steady_clock::now();
  {
    OffloadedGpt gpt("");
    REQUIRE(gpt.step(0).finite);
    gpt.job.leave();
  }
  const auto usual = std::chrono::ceil<std::chrono::seconds>(std::chrono::steady_clock::now() - started);
  const auto limit = std::max(std::chrono::seconds(1), 5 * usual);
  OffloadedGpt gpt("", limit);
  REQUIRE(gpt.step(0).finite);
  setenv("FAKE_CUDA", "stream_busy", 1);  // until the end: nothing may wait again
  CHECK_THROWS_WITH(gpt.step(1),
                    Catch::Matchers::ContainsSubstring(
                        fmt::format("did not complete its work within {} s: a copy from it", limit.count())));
  CHECK(gpt.compute.gpu().is_hung());
}
