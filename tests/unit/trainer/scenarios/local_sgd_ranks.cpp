// SPDX-License-Identifier: Apache-2.0
// Local SGD, mostly on three ranks with unequal shares of a batch. Averages after each step of SGD train as
// data parallelism does, up to rounding. Workers train by themselves between averages. A run that resumes on
// the same number of ranks has the same bits; on another number, or by another strategy, it goes on from the
// same parameters.
#include <cstdio>
#include <limits>
#include <vector>

#include "full_state.hpp"
#include "strategies/local_sgd/local_sgd.hpp"
#include "strategies/make_strategy.hpp"
#include "temporary_folder.hpp"
#include "trainer/models/model_fixture.hpp"
#include "training/collective_errors.hpp"

using namespace muster;

namespace {

constexpr int batch = 7;
constexpr double rate = 1e-2;

int failures = 0;
void require(bool fine, int rank, const char* what) {
  if (fine) return;
  ++failures;
  std::fprintf(stderr, "FAILED on rank %d: %s\n", rank, what);
}

StrategySettings training(OptimizerKind kind, int chunk = 0) {
  OptimizerSettings optimizer;
  optimizer.kind = kind;
  optimizer.clip = kind == OptimizerKind::sgd ? 0 : 0.5;
  return StrategySettings({optimizer, batch, 3, chunk});
}

StrategySettings local_sgd(std::int64_t every, bool nesterov, StrategySettings of) {
  of.local_sgd = {every, {nesterov, 0.7, 0.9}};
  return of;
}

/// Trains steps [from, to) on the first `ranks` ranks. A checkpoint's tensors are taken after step
/// `saved_at`, too, and both are returned.
struct Course {
  int from = 0, to = 6, saved_at = 0;
  std::int64_t averages = 0;
  FullState saved{}, end{};
  std::vector<std::size_t> bytes{};  ///< that each step reduced

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
    const auto save = [&](FullState& to_state) {
      if (strategy->synchronize()) ++averages;
      require(CollectiveErrors(world).differing_ranks(strategy->parameter_hash()).empty(), rank,
              "all ranks have the same parameters");
      if (rank == 0) to_state.allocate(*strategy);
      strategy->gather_state(to_state.tensors());
    };
    for (int step = from; step < to; ++step) {
      if (step > 0 && step == saved_at) save(saved);
      strategy->begin_step(step, step * batch, rate, {});
      const StepResult result = strategy->end_step();
      require(result.finite && !result.any_stop, rank, "a step is finite");
      if (result.synchronized) ++averages;
      bytes.push_back(result.gradient_bytes);
    }
    save(end);
  }
};

Course course(Communicator world, const Workload& workload, const StrategySettings& settings,
              Course of = {}) {
  of.run(world, workload, settings);
  return of;
}

void test_data_parallelism(Communicator world, const Workload& workload) {
  for (const int chunk : {0, 2}) {
    const auto sgd = training(OptimizerKind::sgd, chunk);
    const Course expected = course(world, workload, sgd);
    const Course averaged = course(world, workload, local_sgd(1, false, sgd));
    const Course rare = course(world, workload, local_sgd(3, false, sgd));
    require(averaged.averages == 6 && rare.averages == 2, world.rank(), "averages are counted");
    if (world.rank() != 0) continue;
    require(distance(averaged.end.parameters, expected.end.parameters) < 2e-6, 0,
            "averages after each step of SGD are data parallelism");
    require(distance(rare.end.parameters, expected.end.parameters) > 1e-4, 0,
            "rare averages are not: the comparison shows something");
  }
}

/// The mean of what each worker computes alone, in this process.
void test_workers(Communicator world, const Workload& workload) {
  const auto settings = training(OptimizerKind::adamw);
  const Course averaged = course(world, workload, local_sgd(3, false, settings), {0, 3});
  const Communicator self = world.split(world.rank());
  if (world.rank() != 0) return;
  std::vector<double> mean(averaged.end.parameters.size());
  for (int worker = 0; worker < world.size(); ++worker) {
    const Share share = share_of(batch, worker, world.size());
    auto compute = test_compute<float>();
    Replica::Settings alone = settings.replica;
    alone.batch = static_cast<int>(share.count());
    Replica replica(alone, workload, compute, self);
    replica.initialize();
    for (int step = 0; step < 3; ++step)
      replica.step(step, step * batch + static_cast<std::int64_t>(share.begin), rate, {});
    const auto parameters = replica.tensors().parameters;
    for (std::size_t i = 0; i < mean.size(); ++i)
      mean[i] += double{parameters[i]} * static_cast<double>(share.count()) / batch;
  }
  require(distance(averaged.end.parameters, {mean.begin(), mean.end()}) < 1e-6, 0,
          "the parameters are the mean of the workers', weighted by samples");
}

/// Four ranks are two workers. Each worker's gradients have the bits of a single rank's.
void test_workers_of_ranks(Communicator four, const Workload& workload) {
  const Communicator two = four.split(four.rank() / 2);
  for (const bool nesterov : {false, true}) {
    StrategySettings settings = local_sgd(2, nesterov, training(OptimizerKind::adamw, 2));
    const Course expected = course(two, workload, settings, {0, 6, 4});
    settings.local_sgd->worker_ranks = 2;
    const Course made = course(four, workload, settings, {0, 6, 4});
    require(four.rank() != 0 || (made.end == expected.end && made.saved == expected.saved), four.rank(),
            "two workers have the same bits whether each is one rank or two");
    Course resumed{4, 6};
    resumed.saved = made.saved;
    resumed.run(four, workload, settings);
    require(four.rank() != 0 || resumed.end == made.end, four.rank(), "they resume with the same bits");
    settings.local_sgd.reset();
    const Course gradients = course(two, workload, settings);
    for (std::size_t step = 0; step < 6; ++step)
      require(gradients.bytes[step] > 0 && made.bytes[step] == expected.bytes[step] + gradients.bytes[step],
              four.rank(), "only a worker's own ranks exchange gradients");
  }
}

void test_rounded_outer_gradients(Communicator world, const Workload& workload) {
  StrategySettings settings = local_sgd(2, true, training(OptimizerKind::adamw));
  const Course expected = course(world, workload, settings);
  settings.local_sgd->sends_bfloat16 = true;
  const Course made = course(world, workload, settings);
  for (std::size_t step = 0; step < 6; ++step)
    require(made.bytes[step] - 40 == (expected.bytes[step] - 40) / 2, world.rank(),
            "bfloat16 has half the bytes");
  if (world.rank() != 0) return;
  const double apart = distance(made.end.parameters, expected.end.parameters);
  require(apart > 0 && apart < 0.01, 0, "rounded outer gradients are near those in float32");
}

void test_resumed(Job& job, Communicator world, const Workload& workload) {
  for (const auto& settings : {local_sgd(2, true, training(OptimizerKind::adamw)),
                               local_sgd(2, false, training(OptimizerKind::sgd, 2))}) {
    const Course whole = course(world, workload, settings, {0, 6, 4});
    Course resumed{4, 6};
    resumed.saved = whole.saved;
    resumed.run(world, workload, settings);
    require(world.rank() != 0 || (resumed.end == whole.end && whole.end != whole.saved), world.rank(),
            "a resumed run has the same bits");
    Course elsewhere{4, 6};
    elsewhere.saved = whole.saved;
    const Communicator two = world.split(job.rank() < 2 ? 0 : 1);
    if (job.rank() < 2) elsewhere.run(two, workload, settings);
    require(world.rank() != 0 || distance(elsewhere.end.parameters, whole.end.parameters) < 0.05,
            world.rank(), "a run resumes on another number of ranks");
    Course other{4, 6};
    other.saved = whole.saved;
    StrategySettings data_parallel = settings;
    data_parallel.local_sgd.reset();
    other.run(world, workload, data_parallel);
    require(world.rank() != 0 || distance(other.end.parameters, whole.end.parameters) < 0.05, world.rank(),
            "data parallelism resumes from a checkpoint of local SGD");
  }
  const Course rounded = [&] {
    Course of;
    of.run<bfloat16>(world, workload, local_sgd(2, true, training(OptimizerKind::adamw)));
    return of;
  }();
  require(rounded.averages == 3, world.rank(), "local SGD computes in bfloat16");
}

void test_flags(Communicator world, const Workload& workload) {
  auto compute = test_compute<float>();
  const auto settings = training(OptimizerKind::adamw);
  LocalSgd strategy({4, {}}, settings.replica, workload, compute, world, world);
  if (world.rank() == 0) strategy.initialize();
  strategy.broadcast();
  const int rank = world.rank(), broken = world.size() - 1;
  float& parameter = strategy.tensors().parameters[0];
  const float good = parameter;
  if (rank == broken) parameter = std::numeric_limits<float>::infinity();
  strategy.begin_step(0, 0, rate, {rank == 1, false});
  parameter = rank == broken ? good : parameter;
  strategy.begin_step(1, batch, rate, {false, rank == 1});
  require(strategy.in_flight() == 2 && strategy.max_in_flight() == 2, rank, "scalars travel during a step");
  StepResult result = strategy.end_step();
  require(!result.finite && result.any_stop && !result.any_failed, rank,
          "all ranks know of one rank's flags");
  require((result.non_finite_samples.count() > 0) == (rank == broken), rank, "the broken rank has samples");
  result = strategy.end_step();
  require(result.finite && !result.any_stop && result.any_failed, rank, "flags are those of a step");
  require(result.gradient_bytes == 40 && !result.synchronized, rank, "only scalars are reduced");
  require(strategy.synchronize()->bytes == strategy.tensors().parameters.size_bytes(), rank,
          "parameters are averaged on request");
  require(!strategy.synchronize(), rank, "and only once");
}

}  // namespace

int main() {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "the quick brown fox jumps over the lazy dog; ";
  write_file(folder / "text", text);
  Options options;
  options.data = (folder / "text").string();
  options.model = {1, 2, 16, 12};
  const auto workload = read_workload(options);
  Job job = Job::join({.device = Device::cpu});
  if (job.size() != 4) return 2;
  test_workers_of_ranks(job.host_world(), *workload);
  const Communicator world = job.host_world().split(job.rank() < 3 ? 0 : 1);
  if (job.rank() < 3) {
    test_data_parallelism(world, *workload);
    test_workers(world, *workload);
    test_rounded_outer_gradients(world, *workload);
    test_resumed(job, world, *workload);
    test_flags(world, *workload);
  }
  job.host_world().barrier();
  job.leave();
  return failures == 0 ? 0 : 1;
}
