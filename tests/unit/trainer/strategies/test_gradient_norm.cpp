// SPDX-License-Identifier: Apache-2.0
// How often a step reads the gradients to check them and to add their squares, and the norm that it finds.
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "catch.hpp"
#include "muster/muster.hpp"
#include "strategies/data_parallel/replica.hpp"
#include "temporary_folder.hpp"
#include "trainer/models/model_fixture.hpp"
#include "trainer/scenarios/small_run.hpp"

using namespace muster;

namespace {

using Cpu = compute::cpu::CpuCompute<float>;

/// Counts the elements of which squares are added.
class CountingCompute : public compute::UpdateCompute<float> {
 public:
  explicit CountingCompute(Cpu& cpu) : cpu_(cpu) {}
  std::size_t squared = 0;

  std::string describe() const override { return cpu_.describe(); }
  double loss() override { return cpu_.loss(); }
  double sum_of_squares(const float* x, std::size_t count, std::size_t position) override {
    squared += count;
    return cpu_.sum_of_squares(x, count, position);
  }
  void accumulate(const float* x, float* sum, std::size_t count, bool first) override {
    cpu_.accumulate(x, sum, count, first);
  }
  void sgd(const compute::SgdStep& step, float* parameter, const float* gradient, float* momentum,
           bfloat16* rounded, std::size_t count) override {
    cpu_.sgd(step, parameter, gradient, momentum, rounded, count);
  }
  void adamw(const compute::AdamwStep& step, float* parameter, const float* gradient, float* moment1,
             float* moment2, bfloat16* rounded, std::size_t count) override {
    cpu_.adamw(step, parameter, gradient, moment1, moment2, rounded, count);
  }
  void round(const float* parameter, bfloat16* rounded, std::size_t count) override {
    cpu_.round(parameter, rounded, count);
  }

 private:
  Cpu& cpu_;
};

class CountedReplica : public Replica {
 public:
  CountedReplica(const Settings& settings, const Workload& workload, CountingCompute& compute,
                 std::unique_ptr<Model> model, Communicator world)
      : Replica(settings, workload, compute, std::move(model), std::move(world), std::nullopt, std::nullopt) {
  }
};

/// As UpdateCompute::decide() finds it.
double norm_of(Cpu& cpu, models::ModelTensors<float>& tensors) {
  double sum = 0;
  std::size_t begin = 0;
  for (const std::size_t end : tensors.table().trained_ends()) {
    sum += cpu.sum_of_squares(tensors.gradients().data() + begin, end - begin, begin);
    begin = end;
  }
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("a single rank reads its gradients once for the check and the norm", "[training]") {
  const TemporaryFolder folder;
  const Options options = small_run_of_one::small_run(folder);
  const auto workload = read_workload(options);
  Job job = Job::join({.device = Device::cpu});
  auto cpu = test_compute<float>();
  CountingCompute counting(cpu);
  Replica::Settings settings{options.optimizer, options.batch, 3};
  std::size_t passes = 0;
  SECTION("all samples at once") { passes = 1; }
  SECTION("in micro-batches: only the last one's sums are read") {
    settings.micro_batch = 2;
    passes = 1;
  }
  SECTION("all samples in one chunk") {
    settings.chunk = options.batch;
    passes = 1;
  }
  SECTION("in three chunks: each is checked, and their sum is another gradient") {
    settings.chunk = 2;
    passes = 4;
  }
  auto model = workload->build(cpu, Replica::samples_at_once(settings, 0, 1), Replica::extra_scalars);
  models::ModelTensors<float>& tensors = model->tensors();
  REQUIRE(tensors.table().arena_size > compute::norm_block);
  CountedReplica replica(settings, *workload, counting, std::move(model), job.host_world());
  replica.initialize();
  for (int step = 0; step < 2; ++step) {
    counting.squared = 0;
    const StepResult result = replica.step(step, step * options.batch, 1e-3, {});
    CHECK(counting.squared == passes * tensors.table().arena_size);
    CHECK(result.gradient_norm == norm_of(cpu, tensors));
  }
  job.leave();
}
