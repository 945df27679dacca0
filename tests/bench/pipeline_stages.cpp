// SPDX-License-Identifier: Apache-2.0
// For tests/bench/pipeline: the idle share of each schedule on the stages of a network on images, with the
// trainer's schedules, messages and loop. Usage: bench_pipeline MODEL DATA IMAGES MILLISECONDS STEPS: images
// of a micro-batch, and how long a rank sleeps in place of its forward pass; 0: it computes. Rank 0 prints a
// table.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "compute/cpu/cpu_compute.hpp"
#include "config/options.hpp"
#include "muster/muster.hpp"
#include "strategies/pipeline/layer_times.hpp"
#include "strategies/pipeline/schedule_runner.hpp"
#include "training/workload.hpp"

using namespace muster;
using namespace muster::pipeline;

namespace {

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// A stage that sends and receives what `stage` does. It computes, or sleeps instead.
class BenchStage final : public StageModel {
 public:
  /// forward_seconds: slept in a forward pass; 0: the stage computes.
  BenchStage(std::unique_ptr<StageModel> stage, double forward_seconds)
      : stage_(std::move(stage)), forward_seconds_(forward_seconds) {}
  /// Seconds of one micro-batch's operations since the last call, which were `count` of each kind: slept, or
  /// of the processor, which hardly depend on what else the machine does.
  OperationTimes take_times(int count) {
    const OperationTimes times{forward_ / count, input_ / count, weight_ / count};
    forward_ = input_ = weight_ = 0;
    return times;
  }

  models::ModelTensors<float>& tensors() noexcept override { return stage_->tensors(); }
  std::size_t bytes() const noexcept override { return stage_->bytes(); }
  void load_samples(int slot, std::uint64_t first, std::uint64_t count) override {
    stage_->load_samples(slot, first, count);
  }
  std::span<std::byte> input(int slot) override { return stage_->input(slot); }
  std::span<std::byte> output(int slot) override { return stage_->output(slot); }
  std::vector<std::span<std::byte>> input_gradient(int slot) override { return stage_->input_gradient(slot); }
  std::vector<std::span<std::byte>> output_gradient(int slot) override {
    return stage_->output_gradient(slot);
  }
  void forward(int slot, float scale) override {
    forward_ += run(1, [&] { stage_->forward(slot, scale); });
  }
  void backward(int slot, float scale, const Model::Ready& ready) override {
    input_ += run(2, [&] { stage_->backward(slot, scale, ready); });
  }
  void backward_input(int slot, int weight_slot, float scale, const Model::Ready& ready) override {
    input_ += run(1, [&] { stage_->backward_input(slot, weight_slot, scale, ready); });
  }
  void backward_weight(int slot, int weight_slot, const Model::Ready& ready) override {
    weight_ += run(1, [&] { stage_->backward_weight(slot, weight_slot, ready); });
  }
  void begin_validation(int, int, bool) override {}
  bool next_held_out(int) override { return false; }
  void load_held_out(int) override {}
  Validation held_out_result(int) override { return {}; }

 private:
  template <typename Computation>
  double run(int passes, const Computation& compute) const {
    if (forward_seconds_ > 0) {
      const double seconds = passes * forward_seconds_;
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      return seconds;
    }
    const double from = processor_seconds();
    compute();
    return processor_seconds() - from;
  }
  std::unique_ptr<StageModel> stage_;
  double forward_seconds_;
  double forward_ = 0, input_ = 0, weight_ = 0;  ///< a whole backward pass is in input_
};

struct Bench {
  const Workload& workload;
  Communicator world;
  int images;              ///< of a micro-batch
  double forward_seconds;  ///< of all stages of a rank; 0: they compute
  int steps;
  std::vector<LayerTimes> layer_times;
  compute::cpu::CpuCompute<float> compute{{1, true, nullptr}};

  BenchStage build(const Plan& plan, int stage) {
    auto model = workload.build_stage(compute, plan.stage_settings(stage));
    model->tensors().initialize(1);
    return {std::move(model), forward_seconds / plan.shape.virtual_stages};
  }
};

void run_backward(StageModel& model, const Operation& operation, int slot, int weight_slots) {
  const auto ready = [](std::size_t) {};
  constexpr float scale = 1.0f / (1 << 10);
  const int weight_slot = operation.micro_batch % std::max(weight_slots, 1);
  if (operation.kind == OperationKind::backward) model.backward(slot, scale, ready);
  if (operation.kind == OperationKind::backward_input) model.backward_input(slot, weight_slot, scale, ready);
  if (operation.kind == OperationKind::backward_weight) model.backward_weight(slot, weight_slot, ready);
}

/// Shares of a step in which a rank is idle, means over all ranks.
struct IdleShares {
  double formula = 0;   ///< for equal stages, with the operations' mean times over all of them
  double replayed = 0;  ///< with each stage's own times, without latency
  double measured = 0;  ///< mean over the steps after the first one
};

/// Adds what is computed from the stages' times, which are on one rank each.
void compute_shares(Communicator& world, const ScheduleShape& shape, int steps,
                    std::map<int, BenchStage>& stages, IdleShares& idle) {
  std::vector<double> all(3 * static_cast<std::size_t>(shape.stages()));
  for (auto& [number, stage] : stages) {
    const OperationTimes own = stage.take_times(steps * shape.micro_batches);
    double* const to = &all[3 * static_cast<std::size_t>(number)];
    to[0] = own.forward, to[1] = own.input, to[2] = own.weight;
  }
  world.all_reduce(all, Reduction::sum);
  ReplaySettings replay{{}};
  OperationTimes sum{0, 0, 0};
  for (std::size_t i = 0; i < all.size(); i += 3) {
    replay.times.push_back({all[i], all[i + 1], all[i + 2]});
    sum = {sum.forward + all[i], sum.input + all[i + 1], sum.weight + all[i + 2]};
  }
  idle.formula = idle_share_formula(shape, sum.forward, sum.input, sum.weight);
  idle.replayed = replay_schedule(make_schedule(shape), replay).idle_share;
}

IdleShares measure(Bench& bench, const Settings& settings) {
  Replica::Settings training;
  training.batch = settings.micro_batches * bench.images;
  Communicator& world = bench.world;
  check_plan(settings, training, bench.workload, world.size());
  const Plan plan = make_plan(settings, training, bench.workload, world.rank(), world.size());
  StageLinks links(world, world, plan, bench.compute);
  std::map<int, BenchStage> stages;
  std::map<int, StageModel*> models;
  for (const int stage : plan.local_stages())
    models[stage] = &stages.emplace(stage, bench.build(plan, stage)).first->second;
  ScheduleRunner runner(plan, models, links, true);
  const auto load = [&](int stage, int micro_batch, int slot) {
    const Share& samples = plan.micro_batches[static_cast<std::size_t>(micro_batch)];
    models[stage]->load_samples(slot, samples.begin, samples.count());
  };
  const auto backward = [&](const Operation& operation, int slot) {
    run_backward(*models[operation.stage], operation, slot,
                 plan.stage_settings(operation.stage).weight_slots);
  };
  IdleShares idle;
  for (int step = 0; step <= bench.steps; ++step) {
    world.barrier();
    runner.run({load, backward}, 1);
    links.wait_all_sent();
    double busy = 0, end = runner.timeline().back().end;
    for (const TimedOperation& timed : runner.timeline()) busy += timed.end - timed.begin;
    world.all_reduce(busy);
    world.all_reduce(end, Reduction::max);
    if (step > 0) idle.measured += (1 - busy / (end * world.size())) / bench.steps;
    if (step == 0)  // in which libraries build what they cache
      for (auto& [number, stage] : stages) stage.take_times(1);
  }
  compute_shares(world, plan.shape, bench.steps, stages, idle);
  return idle;
}

void print_table(Bench& bench) {
  const int ranks = bench.world.size();
  const bool is_first = bench.world.rank() == 0;
  if (is_first)
    std::printf("%-18s %6s %13s %8s %10s %9s %9s\n", "schedule", "ranks", "micro-batches", "virtual",
                "formula", "replayed", "measured");
  for (const int micro_batches : {ranks, 4 * ranks}) {
    for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                                    ScheduleKind::interleaved_1f1b, ScheduleKind::zero_bubble_h1}) {
      const int chunks = kind == ScheduleKind::interleaved_1f1b ? 2 : 1;
      const IdleShares idle =
          measure(bench, {kind, ranks, micro_batches, chunks, Balance::time, bench.layer_times});
      if (!is_first) continue;
      std::printf("%-18s %6d %13d %8d %9.2f%% %8.2f%% %8.2f%%\n", std::string(to_string(kind)).c_str(), ranks,
                  micro_batches, chunks, 100 * idle.formula, 100 * idle.replayed, 100 * idle.measured);
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  Options options;
  options.model_name = argv[1];
  options.data = argv[2];
  Job job = Job::join({.device = Device::cpu});
  try {
    const auto workload = read_workload(options);
    Bench bench{
        *workload, job.host_world(), std::atoi(argv[3]), std::atof(argv[4]) * 1e-3, std::atoi(argv[5]), {}};
    const int rank = job.rank(), last = job.size() - 1;
    if (bench.forward_seconds == 0) {
      const auto images = static_cast<std::uint64_t>(bench.images);
      const LayerTimes own = measure_layers(*workload, {rank == 0, rank == last, images, 1}, bench.compute);
      bench.layer_times = gather_layer_times(own, rank, job.size(), bench.world);
    }
    print_table(bench);
  } catch (const Error& error) {
    std::fprintf(stderr, "bench_pipeline: %s\n", error.what());
    return 1;
  }
  job.leave();
  return 0;
}
