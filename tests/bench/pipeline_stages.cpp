// SPDX-License-Identifier: Apache-2.0
// For tests/bench/pipeline: the idle share of each schedule on stages that sleep instead of computing, with
// the trainer's schedules, messages and loop. Rank 0 prints a table.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "compute/cpu/cpu_compute.hpp"
#include "strategies/pipeline/schedule_runner.hpp"

using namespace muster;
using namespace muster::pipeline;

namespace {

double forward_seconds = 0.1;  ///< of all stages of a rank; a backward pass takes twice as long
constexpr int steps = 2;

/// A stage that sleeps, and sends and receives a few bytes.
class SleepingStage final : public StageModel {
 public:
  SleepingStage(int slots, double share)
      : share_(share), buffers_(static_cast<std::size_t>(slots), std::vector<std::byte>(3 * bytes_each)) {}
  models::ModelTensors<float>& tensors() noexcept override { return tensors_; }
  std::size_t bytes() const noexcept override { return 0; }
  void load_samples(int, std::uint64_t, std::uint64_t) override {}
  std::span<std::byte> input(int slot) override { return part(slot, 0); }
  std::span<std::byte> output(int slot) override { return part(slot, 1); }
  std::vector<std::span<std::byte>> input_gradient(int slot) override { return {part(slot, 2)}; }
  std::vector<std::span<std::byte>> output_gradient(int slot) override { return {part(slot, 2)}; }
  void forward(int, float) override { sleep(forward_seconds); }
  void backward(int, float, const Model::Ready&) override { sleep(2 * forward_seconds); }
  void backward_input(int, int, float, const Model::Ready&) override { sleep(forward_seconds); }
  void backward_weight(int, int, const Model::Ready&) override { sleep(forward_seconds); }
  void begin_validation(int, int, bool) override {}
  bool next_held_out(int) override { return false; }
  void load_held_out(int) override {}
  Validation held_out_result(int) override { return {}; }

 private:
  static constexpr std::size_t bytes_each = 4096;
  std::span<std::byte> part(int slot, std::size_t number) {
    return std::span(buffers_[static_cast<std::size_t>(slot)]).subspan(number * bytes_each, bytes_each);
  }
  void sleep(double seconds) const {
    std::this_thread::sleep_for(std::chrono::duration<double>(share_ * seconds));
  }
  double share_;
  std::vector<std::vector<std::byte>> buffers_;
  models::ModelTensors<float> tensors_{models::TensorTable{}};
};

Plan make_sleeping_plan(const ScheduleShape& shape, int rank) {
  Plan plan;
  plan.shape = shape;
  plan.rank = rank;
  plan.stages.resize(static_cast<std::size_t>(shape.stages()));
  plan.operations = make_operations(shape, rank);
  return plan;
}

void run_backward(StageModel& model, OperationKind kind, int slot) {
  if (kind == OperationKind::backward) model.backward(slot, 1, {});
  if (kind == OperationKind::backward_input) model.backward_input(slot, 0, 1, {});
  if (kind == OperationKind::backward_weight) model.backward_weight(slot, 0, {});
}

/// The mean idle share of steps after the first one, over all ranks.
double measure(const Communicator& world, const ScheduleShape& shape) {
  const Plan plan = make_sleeping_plan(shape, world.rank());
  compute::cpu::CpuCompute<float> compute({1, true, nullptr});
  StageLinks links(world, world, plan, compute);
  std::map<int, std::unique_ptr<SleepingStage>> stages;
  std::map<int, StageModel*> models;
  for (const int stage : plan.local_stages()) {
    stages[stage] =
        std::make_unique<SleepingStage>(plan.stage_settings(stage).slots, 1.0 / shape.virtual_stages);
    models[stage] = stages[stage].get();
  }
  ScheduleRunner runner(plan, models, links, true);
  Communicator all = world;
  double idle = 0;
  for (int step = 0; step <= steps; ++step) {
    all.barrier();
    runner.run({[](int, int, int) {},
                [&](const Operation& operation, int slot) {
                  run_backward(*models[operation.stage], operation.kind, slot);
                }},
               1);
    links.wait_all_sent();
    double busy = 0, end = runner.timeline().back().end;
    for (const TimedOperation& timed : runner.timeline()) busy += timed.end - timed.begin;
    all.all_reduce(busy);
    all.all_reduce(end, Reduction::max);
    if (step > 0) idle += (1 - busy / (end * shape.ranks)) / steps;
  }
  return idle;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) forward_seconds = std::atof(argv[1]) * 1e-3;
  Job job = Job::join({.device = Device::cpu});
  const Communicator world = job.host_world();
  const int ranks = world.size();
  const OperationTimes times{forward_seconds, forward_seconds, forward_seconds};
  if (world.rank() == 0)
    std::printf("%-18s %6s %13s %8s %10s %9s %9s\n", "schedule", "ranks", "micro-batches", "virtual",
                "formula", "simulated", "measured");
  for (const int micro_batches : {ranks, 4 * ranks}) {
    for (const ScheduleShape& shape : {ScheduleShape{ScheduleKind::gpipe, ranks, micro_batches},
                                       ScheduleShape{ScheduleKind::one_f_one_b, ranks, micro_batches},
                                       ScheduleShape{ScheduleKind::interleaved_1f1b, ranks, micro_batches, 2},
                                       ScheduleShape{ScheduleKind::zero_bubble_h1, ranks, micro_batches}}) {
      const double measured = measure(world, shape);
      if (world.rank() != 0) continue;
      std::printf("%-18s %6d %13d %8d %9.2f%% %8.2f%% %8.2f%%\n", std::string(to_string(shape.kind)).c_str(),
                  ranks, micro_batches, shape.virtual_stages, 100 * idle_share_formula(shape),
                  100 * replay_schedule(make_schedule(shape), {{times}}).idle_share, 100 * measured);
      std::fflush(stdout);
    }
  }
  job.leave();
  return 0;
}
