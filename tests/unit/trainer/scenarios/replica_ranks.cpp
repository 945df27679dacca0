// SPDX-License-Identifier: Apache-2.0
// Tests on several ranks. When one rank's gradients are not finite, every rank takes the same decision, names
// the same rank and samples, and continues with the same parameters. A step with sharded optimizer state has
// the same bits as without, and a checkpoint can be resumed with or without it on any number of ranks.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <vector>

#include "full_state.hpp"
#include "strategies/data_parallel/replica.hpp"
#include "strategies/memory_estimate.hpp"
#include "temporary_folder.hpp"
#include "trainer/models/model_fixture.hpp"
#include "training/collective_errors.hpp"
#include "training/non_finite.hpp"

using namespace muster;

namespace {

int failures = 0;
void require(bool fine, int rank, const char* what) {
  if (fine) return;
  ++failures;
  std::fprintf(stderr, "FAILED on rank %d: %s\n", rank, what);
}

void test_skipped_update(Job& job, Communicator world, const Workload& workload, int chunk,
                         const std::string& samples) {
  auto compute = test_compute<float>();
  CollectiveErrors collective_errors(world);
  const int rank = world.rank(), broken = world.size() - 1, batch = 2 * world.size() + 1;
  Replica replica({{}, batch, 3, chunk}, workload, compute, world);
  replica.initialize();
  require(replica.step(0, 0, 1e-3, {}).finite, rank, "the first step is finite");
  const std::uint64_t before = replica.parameter_hash();
  float& parameter = replica.tensors().parameters[0];
  const float good = parameter;
  if (rank == broken) parameter = std::numeric_limits<float>::infinity();
  const StepResult result = replica.step(1, batch, 1e-3, {});
  parameter = good;
  require(!result.finite, rank, "every rank gets the result");
  require((result.non_finite_samples.count() > 0) == (rank == broken), rank,
          "only the broken rank has non-finite samples");
  require(replica.parameter_hash() == before, rank, "nothing was updated");
  const std::string expected = "on rank " + std::to_string(broken) + " (" +
                               job.roster()[static_cast<std::size_t>(broken)].host + "), " + samples;
  const std::string named = describe_non_finite(collective_errors, job.roster(), result);
  require(named == expected, rank, (named + " is not " + expected).c_str());
  require(replica.step(2, 2 * batch, 1e-3, {}).finite, rank, "training continues");
  require(collective_errors.differing_ranks(replica.parameter_hash()).empty(), rank,
          "the ranks are the same");
}

/// Number of steps in which the exposed time differed from the reduction's time.
int overlapped_steps = 0;

struct StepRange {
  int chunk = 0;
  bool sharded = false;
  int from = 0, to = 4;  ///< steps
  OptimizerKind optimizer = OptimizerKind::adamw;
  int micro_batch = 0;
};

/// Trains from `start`, or from the seed when `start` is empty. Returns the state on rank 0.
template <typename Real = float>
FullState train(Communicator world, const Workload& workload, const StepRange& range, FullState start = {}) {
  constexpr int batch = 9;
  auto compute = test_compute<Real>();
  OptimizerSettings optimizer;
  optimizer.kind = range.optimizer;
  const Replica::Settings settings{optimizer,     batch,        3,     range.chunk,
                                   range.sharded, sizeof(Real), false, range.micro_batch};
  Replica replica(settings, workload, compute, world);
  const std::size_t arena = replica.table().arena_size, kept = replica.tensors().moment1.size();
  const bool in_parts = range.sharded && world.size() > 1;
  require(in_parts ? kept <= arena / static_cast<std::size_t>(world.size()) + 16 : kept == arena,
          world.rank(), "moments have room for the rank's part");
  const auto plan = estimate_memory(workload, settings, world.rank(), world.size());
  std::uint64_t planned = 0;
  for (const MemorySegment& segment : plan) {
    if (segment.name != "copy for checkpoints" && segment.name != "sums of chunks") planned += segment.bytes;
  }
  require(planned == replica.bytes(), world.rank(), "the estimated memory is exact");
  if (range.from == 0) {
    if (world.rank() == 0) replica.initialize();
    replica.broadcast();
  } else {
    replica.scatter_state(start.tensors());
  }
  for (int step = range.from; step < range.to; ++step) {
    const StepResult result = replica.step(step, step * batch, 1e-2, {});
    require(result.finite, world.rank(), "a step is finite");
    overlapped_steps += result.exposed != result.communication ? 1 : 0;
    require(result.gathered_bytes == (in_parts ? arena * sizeof(float) : 0), world.rank(),
            "bytes are counted");
  }
  require(CollectiveErrors(world).differing_ranks(replica.parameter_hash()).empty(), world.rank(),
          "all ranks have the same parameters");
  FullState whole;
  if (world.rank() == 0) whole.allocate(replica);
  replica.gather_state(whole.tensors());
  return whole;
}

void test_sharded_state(Job& job, const Workload& workload) {
  const auto first = [&](int ranks) { return job.host_world().split(job.rank() < ranks ? 0 : 1); };
  const auto same = [&](const FullState& a, const FullState& b, const std::string& what) {
    require(job.rank() != 0 || (!a.parameters.empty() && a == b), 0, what.c_str());
  };
  constexpr auto sgd = OptimizerKind::sgd;
  FullState middle, end, sgd_middle, sgd_end;
  for (const int ranks : {1, 2, 3, 8}) {
    const Communicator world = first(ranks);
    if (job.rank() >= ranks) continue;
    const std::string on = " on " + std::to_string(ranks) + " ranks";
    if (ranks == 1) {
      middle = train(world, workload, {2, false, 0, 2});
      end = train(world, workload, {2, false});
      require(middle != end, 0, "training changes what is compared");
      sgd_middle = train(world, workload, {2, false, 0, 2, sgd});
      sgd_end = train(world, workload, {2, false, 0, 4, sgd});
      require(sgd_middle != sgd_end && sgd_end != end, 0, "SGD changes what is compared");
    }
    same(train(world, workload, {2, false}), end, "chunks: the bits of one rank" + on);
    same(train(world, workload, {2, true}), end, "chunks: the bits of one rank with shards" + on);
    same(train(world, workload, {2, true, 2, 4}, middle), end, "chunks: resumed from one rank's state" + on);
    same(train(world, workload, {2, true, 0, 4, sgd}), sgd_end, "SGD: the bits of one rank with shards" + on);
    same(train(world, workload, {2, true, 2, 4, sgd}, sgd_middle), sgd_end, "SGD: resumed" + on);
    same(train(world, workload, {2, false, 2, 4, sgd}, sgd_middle), sgd_end, "SGD: resumed, no shards" + on);
    same(train(world, workload, {0, true}), train(world, workload, {0, false}), "the bits of no shards" + on);
    same(train(world, workload, {0, true, 0, 4, sgd, 1}), train(world, workload, {0, false, 0, 4, sgd, 1}),
         "micro-batches: the bits of no shards" + on);
    same(train<bfloat16>(world, workload, {0, true}), train<bfloat16>(world, workload, {0, false}),
         "the bits of no shards in bfloat16" + on);
  }
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
  Job job = Job::join({.device = Device::cpu});
  if (job.size() != 8) return 2;
  const Communicator three = job.host_world().split(job.rank() < 3 ? 0 : 1);
  if (job.rank() < 3) {
    // Seven samples a step over three ranks: rank 2 has the last two, or the last of four chunks of two.
    test_skipped_update(job, three, *workload, 0, "samples 12 to 13");
    test_skipped_update(job, three, *workload, 2, "sample 13");
  }
  test_sharded_state(job, *workload);
  require(overlapped_steps > 0, job.rank(), "the exposed time differs from the reduction's time");
  const auto differing =
      CollectiveErrors(job.host_world()).differing_ranks(job.rank() == 2 || job.rank() == 5 ? 7 : 8);
  require(differing == std::vector<int>{2, 5}, job.rank(), "ranks that differ from rank 0 are named");
  job.leave();
  return failures == 0 ? 0 : 1;
}
