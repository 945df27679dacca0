// SPDX-License-Identifier: Apache-2.0
// Tests on four ranks with sharded optimizer state and copies of it. A step is interrupted as by the loss of
// a rank: some ranks made its update and lost the exchange of parameters, others did not make it. The ranks
// that are left must get the state of a run that was not interrupted.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "compute/cpu/cpu_compute.hpp"
#include "full_state.hpp"
#include "muster/muster.hpp"
#include "run/share_gradients.hpp"
#include "run/state_copy.hpp"
#include "strategies/data_parallel/replica.hpp"
#include "temporary_folder.hpp"

using namespace muster;

namespace {

constexpr int batch = 9, interrupted_step = 2;
constexpr float garbage = std::numeric_limits<float>::quiet_NaN();
const std::vector<int> hosts{0, 0, 1, 1};

int failures = 0;
void require(bool fine, int rank, const std::string& what) {
  if (fine) return;
  ++failures;
  std::fprintf(stderr, "FAILED on rank %d: %s\n", rank, what.c_str());
}

using Cpu = compute::cpu::CpuCompute<float>;

/// Interrupts a step before its update, with gradients as an interrupted reduction leaves them.
class InterruptedCompute : public compute::UpdateCompute<float> {
 public:
  explicit InterruptedCompute(Cpu& cpu) : cpu_(cpu) {}
  bool interrupts = false;

  std::string describe() const override { return cpu_.describe(); }
  double loss() override { return cpu_.loss(); }
  std::optional<double> decide(const float* slots, const float* gradients, std::span<const std::size_t> ends,
                               double clip) override {
    if (!interrupts) return UpdateCompute::decide(slots, gradients, ends, clip);
    interrupts = false;
    *const_cast<float*>(slots) = garbage;
    std::fill_n(const_cast<float*>(gradients), ends.back(), garbage);
    throw Error(ErrorCode::lost_rank, "before the update");
  }
  void accumulate(const float* x, float* sum, std::size_t count, bool first) override {
    cpu_.accumulate(x, sum, count, first);
  }
  double sum_of_squares(const float* x, std::size_t count, std::size_t position) override {
    return cpu_.sum_of_squares(x, count, position);
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

/// Interrupts a step after its update. All parameters but those of this rank's part and of its copy are
/// then garbage.
class InterruptedReplica : public Replica {
 public:
  InterruptedReplica(const Settings& settings, const Workload& workload, Cpu& cpu,
                     InterruptedCompute& compute, const Communicator& world)
      : Replica(settings, workload, compute,
                workload.build(cpu, samples_at_once(settings, world.rank(), world.size()), extra_scalars),
                world, std::nullopt, std::nullopt) {}
  std::vector<Share> kept;
  bool interrupts = false;

 protected:
  void exchange_parts(StepResult& result) override {
    if (!interrupts) return Replica::exchange_parts(result);
    const std::span<float> parameters = tensors().parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto holds = [&](const Share& part) { return part.begin <= i && i < part.end; };
      if (std::none_of(kept.begin(), kept.end(), holds)) parameters[i] = garbage;
    }
    throw Error(ErrorCode::lost_rank, "after the update");
  }
};

struct Interruption {
  std::string what;
  std::set<int> updated;  ///< ranks that made the interrupted step's update
  std::set<int> lost;
  int steps = 0;  ///< of the state that is left; 0: a part of it is missing
};

Replica::Settings settings_of(OptimizerKind kind) {
  OptimizerSettings optimizer;
  optimizer.kind = kind;
  return {optimizer, batch, 3, 2};
}

/// The state after `steps` steps on one rank.
FullState train_alone(const Workload& workload, const Communicator& alone, OptimizerKind kind, int steps) {
  Cpu compute({1, true, nullptr});
  Replica replica(settings_of(kind), workload, compute, alone);
  replica.initialize();
  for (int step = 0; step < steps; ++step) replica.step(step, step * batch, 1e-2, {});
  FullState whole;
  whole.allocate(replica);
  replica.gather_state(whole.tensors());
  return whole;
}

void interrupt(InterruptedReplica& replica, InterruptedCompute& compute, bool updated, int rank) {
  (updated ? replica.interrupts : compute.interrupts) = true;
  std::string thrown;
  try {
    replica.step(interrupted_step, interrupted_step * batch, 1e-2, {});
  } catch (const Error& error) {
    thrown = error.what();
  }
  require(thrown == (updated ? "after the update" : "before the update"), rank, "the step is interrupted");
}

bool equal(const TrainingTensors& found, const FullState& expected) {
  const auto same = [](std::span<const float> a, const std::vector<float>& b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
  };
  return same(found.parameters, expected.parameters) && same(found.moment1, expected.moment1) &&
         same(found.moment2, expected.moment2);
}

void test_interruption(Communicator world, const Workload& workload, OptimizerKind kind,
                       const Interruption& of) {
  const FullState expected = train_alone(workload, world.split(world.rank()), kind, of.steps);
  Replica::Settings settings = settings_of(kind);
  settings.shard_optimizer = true;
  settings.hosts = hosts;
  const int rank = world.rank();
  Cpu cpu({1, true, nullptr});
  InterruptedCompute compute(cpu);
  InterruptedReplica replica(settings, workload, cpu, compute, world);
  const std::size_t size = replica.table().arena_size;
  replica.kept = {optimizer_part(size, rank, world.size()),
                  optimizer_part(size, copied_ranks(hosts)[static_cast<std::size_t>(rank)], world.size())};
  if (rank == 0) replica.initialize();
  replica.broadcast();
  for (int step = 0; step < interrupted_step; ++step) replica.step(step, step * batch, 1e-2, {});
  interrupt(replica, compute, of.updated.count(rank) > 0, rank);
  const bool lost = of.lost.count(rank) > 0;
  Communicator left = world.split(lost ? 1 : 0);
  if (!lost) {
    share_gradients(left, &replica, interrupted_step);
    TrainingState state;
    state.batch = batch;
    state.step = interrupted_step;
    for (; replica.in_flight() > 0; ++state.step)
      require(replica.end_step().finite, rank, "the interrupted step ends");
    state.samples = state.step * batch;
    StateCopy copy(replica, state);
    const bool whole = copy.collect(left, state);
    require(whole == (of.steps > 0), rank, of.what + ": whether a part is missing");
    require(!whole || (state.step == of.steps && state.samples == of.steps * batch), rank,
            of.what + ": the position");
    require(!whole || left.rank() > 0 || equal(copy.tensors(), expected), rank, of.what + ": the bits");
  }
  world.barrier();
}

/// A copy is held to what the docs say that it costs.
void test_memory(const Communicator& world, const Workload& workload) {
  Replica::Settings settings = settings_of(OptimizerKind::adamw);
  settings.shard_optimizer = true;
  Cpu compute({1, true, nullptr});
  const std::size_t without = Replica(settings, workload, compute, world).bytes();
  settings.hosts = hosts;
  Replica replica(settings, workload, compute, world);
  const std::size_t part =
      optimizer_part(replica.table().arena_size, copied_ranks(hosts)[static_cast<std::size_t>(world.rank())],
                     world.size())
          .count();
  require(replica.bytes() - without == 2 * part * sizeof(float), world.rank(), "a copy is two moments");
}

}  // namespace

int main() {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "the quick brown fox jumps over the lazy dog; ";
  write_file(folder / "text", text);
  Options options;
  options.data = (folder / "text").string();
  options.model = {1, 2, 32, 24};
  const auto workload = read_workload(options);
  Job job = Job::join({.device = Device::cpu, .tolerate_rank_loss = true});
  if (job.size() != 4) return 2;
  const Communicator world = job.host_world();
  test_memory(world, *workload);
  // Rank 0 has the copy of rank 2's part and rank 2 that of rank 0's; so have ranks 1 and 3.
  const std::vector<Interruption> interruptions{
      {"no rank has updated", {}, {3}, 2},
      {"all ranks have updated", {0, 1, 2, 3}, {3}, 3},
      {"rank 1 has updated", {1}, {3}, 3},
      {"the lost rank alone has updated", {3}, {3}, 2},
      {"rank 0 has updated and a host is lost", {0}, {2, 3}, 3},
      {"the host of rank 0 is lost", {2}, {0, 1}, 3},
      {"a part and its copy are lost", {0}, {1, 3}, 0},
  };
  for (const Interruption& interruption : interruptions) {
    for (const auto kind : {OptimizerKind::adamw, OptimizerKind::sgd})
      test_interruption(world, *workload, kind, interruption);
  }
  job.leave();
  return failures == 0 ? 0 : 1;
}
