// SPDX-License-Identifier: Apache-2.0
// Parameter servers on five ranks. With staleness 0 and chunks the bits are those of data parallelism, for
// any number of servers, one with an empty slice, too. Runs go on from each other's checkpoints. With a
// staleness, or without a bound, all ranks have the same parameters at the end, and they learned.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "full_state.hpp"
#include "strategies/make_strategy.hpp"
#include "temporary_folder.hpp"
#include "trainer/models/model_fixture.hpp"
#include "training/collective_errors.hpp"

using namespace muster;

namespace {

constexpr int batch = 7;
constexpr double rate = 1e-2;
// AdamW's updates are as large as the rate, however small the gradient: with 1e-2, stale ones can overshoot.
constexpr double low_rate = 2e-3;

int failures = 0;
void require(bool fine, int rank, const char* what) {
  if (fine) return;
  ++failures;
  std::fprintf(stderr, "FAILED on rank %d: %s\n", rank, what);
}

StrategySettings training(OptimizerKind kind, int chunk = 0) {
  OptimizerSettings optimizer;
  optimizer.kind = kind;
  optimizer.clip = 0.5;
  return StrategySettings({optimizer, batch, 3, chunk});
}

StrategySettings served(Job& job, int servers, std::optional<std::uint64_t> staleness, StrategySettings of) {
  of.parameter_server = {&job, servers, staleness, false};
  return of;
}

/// Trains steps [from, to) as the trainer's loop does. The state before step `saved_at` is kept, too.
struct Course {
  int from = 0, to = 5, saved_at = 0;
  FullState saved{}, end{};
  double learning_rate = rate;
  double first_loss = 0, last_loss = 0, last_norm = 0;

  template <typename Real = float>
  void run(Communicator world, const Workload& workload, StrategySettings settings) {
    settings.replica.real_bytes = sizeof(Real);
    auto compute = test_compute<Real>();
    const auto strategy = make_strategy(settings, workload, compute, world, world);
    const int rank = world.rank();
    if (from == 0) {
      if (rank == 0) strategy->initialize();
      strategy->broadcast();
    } else {
      if (rank == 0) saved.allocate(*strategy);
      strategy->scatter_state(saved.tensors());
    }
    int ended = from;
    const auto end_steps = [&](std::size_t left) {
      while (strategy->in_flight() > left) {
        const StepResult result = strategy->end_step();
        require(result.finite && !result.any_stop && result.gradient_norm > 0, rank, "a step is finite");
        if (ended++ == from) first_loss = result.loss;
        last_loss = result.loss;
        last_norm = result.gradient_norm;
      }
    };
    const auto save = [&](FullState& state) {
      end_steps(0);
      require(CollectiveErrors(world).differing_ranks(strategy->parameter_hash()).empty(), rank,
              "all ranks have the same parameters");
      if (rank == 0) state.allocate(*strategy);
      strategy->gather_state(state.tensors());
    };
    for (int step = from; step < to; ++step) {
      if (step > 0 && step == saved_at) save(saved);
      strategy->begin_step(step, step * batch, learning_rate, {});
      end_steps(strategy->max_in_flight() - 1);
    }
    save(end);
  }
};

Course course(Communicator world, const Workload& workload, const StrategySettings& settings,
              Course of = {}) {
  of.run(world, workload, settings);
  return of;
}

// The reference is data parallelism on one rank, whose bits are those of any number.
void test_bits(Job& job, Communicator world, const Workload& workload) {
  const Communicator self = world.split(world.rank());
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd}) {
    const StrategySettings settings = training(kind, 2);
    const Course expected = course(self, workload, settings, {0, 5, 3});
    for (const int servers : {1, 2, 3}) {
      const Course made = course(world, workload, served(job, servers, 0, settings), {0, 5, 3});
      require(std::abs(made.last_loss - expected.last_loss) < 1e-6, world.rank(),
              "losses are those of data parallelism");
      // A norm with other last bits would clip by the same float most of the time.
      require(made.last_norm == expected.last_norm, world.rank(), "norms have the bits of data parallelism");
      if (world.rank() != 0) continue;
      require(made.end == expected.end && made.saved == expected.saved, 0,
              "synchronous servers have the bits of data parallelism");
    }
    Course resumed{3, 5};
    resumed.saved = expected.saved;
    resumed.run(world, workload, served(job, 2, 0, settings));
    require(world.rank() != 0 || resumed.end == expected.end, world.rank(),
            "servers go on from another strategy's checkpoint with the same bits");
  }
  const StrategySettings settings = training(OptimizerKind::adamw, 2);
  StrategySettings offloaded = served(job, 2, 0, settings);
  offloaded.parameter_server->update_threads = 1;
  Course expected{0, 3}, made{0, 3};
  expected.run<bfloat16>(self, workload, settings);
  made.run<bfloat16>(world, workload, offloaded);
  require(world.rank() != 0 || made.end == expected.end, world.rank(),
          "with tensors on the host, workers have the bits of data parallelism in bfloat16");
}

void test_asynchronous(Job& job, Communicator world, const Workload& workload) {
  const Communicator self = world.split(world.rank());
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd}) {
    const StrategySettings settings = training(kind);
    const double low = kind == OptimizerKind::sgd ? rate : low_rate;
    const Course expected = course(self, workload, settings, {.to = 12, .learning_rate = low});
    for (const auto staleness :
         {std::optional<std::uint64_t>(0), std::optional<std::uint64_t>(2), std::optional<std::uint64_t>()}) {
      const Course made = course(world, workload, served(job, 2, staleness, settings),
                                 {.to = 12, .saved_at = 4, .learning_rate = low});
      require(made.last_loss < made.first_loss, world.rank(), "stale gradients learn");
      if (world.rank() != 0) continue;
      const double apart = distance(made.end.parameters, expected.end.parameters);
      const double rounding = kind == OptimizerKind::sgd ? 2e-6 : 2e-3;  // AdamW divides by small moments
      require(staleness == 0 ? apart < rounding : apart < 0.3 && apart > 1e-5, 0,
              "without staleness the parameters are those of data parallelism, with it they are near");
    }
  }
  const StrategySettings settings = training(OptimizerKind::sgd);
  const Course expected = course(self, workload, settings, {0, 12});
  for (const bool prefetches : {false, true}) {
    StrategySettings one_worker = served(job, 4, std::nullopt, settings);
    one_worker.parameter_server->prefetches = prefetches;
    const Course made = course(world, workload, one_worker, {0, 12});
    if (world.rank() != 0) continue;
    const double apart = distance(made.end.parameters, expected.end.parameters);
    require(prefetches ? apart > 1e-5 : apart < 2e-6, 0,
            "a single worker's parameters lack its last gradient only when it reads them ahead");
  }
  StrategySettings rounded = served(job, 1, std::nullopt, training(OptimizerKind::adamw));
  rounded.parameter_server->sends_bfloat16 = true;
  Course of{.to = 12, .learning_rate = low_rate};
  of.run<bfloat16>(world, workload, rounded);
  require(of.last_loss < of.first_loss, world.rank(), "bfloat16 learns");
}

void test_flags(Job& job, Communicator world, const Workload& workload) {
  auto compute = test_compute<float>();
  const auto strategy =
      make_strategy(served(job, 2, 1, training(OptimizerKind::adamw)), workload, compute, world, world);
  const int rank = world.rank();
  if (rank == 0) strategy->initialize();
  strategy->broadcast();
  require(strategy->max_in_flight() == (rank < 2 ? 1 : 2), rank, "workers compute ahead");
  strategy->begin_step(0, 0, rate, {rank == 1, rank == 4});
  world.barrier();  // all flags are there
  bool stop = false, failed = false;
  for (int step = 1; step < 3; ++step) {
    strategy->begin_step(step, step * batch, rate, {});
    const StepResult result = strategy->end_step();
    stop = stop || result.any_stop;
    failed = failed || result.any_failed;
  }
  strategy->end_step();
  require(stop && failed, rank, "all ranks know of one rank's flags");
  world.barrier();  // the servers stay until nobody asks them
}

}  // namespace

int main() {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "the quick brown fox jumps over the lazy dog; ";
  write_file(folder / "text", text);
  Options options;
  options.data = (folder / "text").string();
  options.model = {1, 2, 32, 12};
  const auto workload = read_workload(options);
  Job job = Job::join({.device = Device::cpu, .tolerate_rank_loss = true});
  if (job.size() != 5) return 2;
  const Communicator world = job.host_world();
  test_bits(job, world, *workload);
  test_asynchronous(job, world, *workload);
  test_flags(job, world, *workload);
  job.leave();
  return failures == 0 ? 0 : 1;
}
