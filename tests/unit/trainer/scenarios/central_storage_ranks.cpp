// SPDX-License-Identifier: Apache-2.0
// Central storage on one to four ranks and on several nodes: the bits of data parallelism, also after a
// resume of one from the other; memory as estimated, or not to be had; steps that are not finite.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "full_state.hpp"
#include "strategies/make_strategy.hpp"
#include "temporary_folder.hpp"
#include "trainer/models/model_fixture.hpp"
#include "training/collective_errors.hpp"

using namespace muster;

namespace {

constexpr int batch = 7;
constexpr double rate = 1e-2;

int failures = 0;
void require(bool fine, int rank, const std::string& what) {
  if (fine) return;
  ++failures;
  std::fprintf(stderr, "FAILED on rank %d: %s\n", rank, what.c_str());
}

struct Course {
  OptimizerKind kind = OptimizerKind::adamw;
  int chunk = 2;
  int micro_batch = 0;
  int from = 0, to = 3;  ///< steps
  bool sharded = false;
  int update_threads = 0;  ///< above 0, computing and updating have memory of their own

  StrategySettings settings(std::size_t real_bytes) const {
    OptimizerSettings optimizer;
    optimizer.kind = kind;
    optimizer.clip = 0.5;
    StrategySettings all(Replica::Settings{optimizer, batch, 3, chunk, sharded, real_bytes});
    all.replica.micro_batch = micro_batch;
    return all;
  }
};

/// Trains by central storage, or without hosts by data parallelism. `hosts`: the node of each rank.
template <typename Real = float>
FullState train(Communicator world, const Workload& workload, const Course& course,
                const std::vector<int>& hosts, FullState state = {}) {
  StrategySettings settings = course.settings(sizeof(Real));
  const int rank = world.rank();
  if (!hosts.empty())
    settings.central_storage = {hosts[static_cast<std::size_t>(rank)], "here", course.update_threads};
  auto compute = test_compute<Real>();
  const auto strategy = make_strategy(settings, workload, compute, world, world);
  if (course.from == 0) {
    if (rank == 0) strategy->initialize();
    strategy->broadcast();
  } else {
    strategy->scatter_state(state.tensors());
  }
  for (int step = course.from; step < course.to; ++step) {
    strategy->begin_step(step, step * batch, rate, {});
    require(strategy->end_step().finite, rank, "a step is finite");
  }
  require(CollectiveErrors(world).differing_ranks(strategy->parameter_hash()).empty(), rank,
          "all ranks have the same parameters");
  if (rank == 0) state.allocate(*strategy);
  strategy->gather_state(state.tensors());
  return state;
}

const std::vector<std::vector<int>> layouts{{0}, {0, 0}, {0, 1, 0}, {0, 0, 0, 0}, {0, 1, 1, 0}};

std::string text_of(const std::vector<int>& hosts) {
  std::string text = " with ranks on hosts";
  for (const int host : hosts) text += ' ' + std::to_string(host);
  return text;
}

void test_bits(Communicator all, const Workload& workload) {
  const Communicator alone = all.split(all.rank());
  FullState middle, end, sgd_end;
  if (all.rank() == 0) {
    middle = train(alone, workload, {.to = 2}, {});
    end = train(alone, workload, {}, {});
    sgd_end = train(alone, workload, {.kind = OptimizerKind::sgd}, {});
    require(middle != end && end != sgd_end, 0, "training changes what is compared");
  }
  for (const auto& hosts : layouts) {
    const int rank = all.rank(), ranks = static_cast<int>(hosts.size());
    const Communicator world = all.split(rank < ranks ? 0 : 1);
    if (rank >= ranks) continue;
    const auto same = [&](const FullState& a, const FullState& b, const char* what) {
      require(rank != 0 || (!a.parameters.empty() && a == b), rank, what + text_of(hosts));
    };
    same(train(world, workload, {}, hosts), end, "the bits of one rank");
    same(train(world, workload, {.kind = OptimizerKind::sgd}, hosts), sgd_end, "SGD: the bits of one rank");
    same(train(world, workload, {.from = 2}, hosts, middle), end, "resumed from data parallelism");
    same(train(world, workload, {.from = 2, .sharded = true}, {}, train(world, workload, {.to = 2}, hosts)),
         end, "resumed by data parallelism");
    const Course micro_batches{.chunk = 0, .micro_batch = 1};
    same(train(world, workload, micro_batches, hosts), train(world, workload, micro_batches, {}),
         "micro-batches: the bits of data parallelism");
    same(train<bfloat16>(world, workload, {}, hosts), train<bfloat16>(world, workload, {}, {}),
         "the bits of data parallelism in bfloat16");
    same(train<bfloat16>(world, workload, {.update_threads = 1}, hosts),
         train<bfloat16>(world, workload, {}, {}), "offloaded: the bits of data parallelism");
    Course offloaded = micro_batches;
    offloaded.update_threads = 1;
    same(train<bfloat16>(world, workload, offloaded, hosts),
         train<bfloat16>(world, workload, micro_batches, {}), "offloaded micro-batches: the same");
  }
}

/// What is allocated beside what was estimated; "sums of chunks" and the copy for checkpoints lie elsewhere.
template <typename Real>
void test_memory(Communicator world, const Workload& workload, int update_threads = 0) {
  const Course course{.chunk = 0, .micro_batch = 1};
  StrategySettings settings = course.settings(sizeof(Real));
  settings.central_storage = {world.rank() / 2, "here", update_threads};
  auto compute = test_compute<Real>();
  CentralStorage strategy(*settings.central_storage, settings.replica, workload, compute, world);
  std::uint64_t shared = 0, own = 0;
  for (const MemorySegment& segment : estimate_memory(workload, settings, world.rank(), world.size())) {
    if (segment.name != "copy for checkpoints") (segment.is_shared ? shared : own) += segment.bytes;
  }
  require(shared == strategy.shared_bytes(), world.rank(), "the shared memory is as estimated");
  const std::uint64_t bytes = strategy.bytes(), arena = workload.table().arena_size;
  const std::uint64_t seen = arena * (sizeof(float) + (sizeof(Real) < sizeof(float) ? sizeof(Real) : 0)) +
                             2 * sizeof(float) * optimizer_part(arena, world.rank() % 2, 2).count();
  require(bytes == own + seen, world.rank(), "a rank's own memory is as estimated");
}

/// The second of two nodes cannot share memory.
void test_no_memory(Communicator world, const Workload& workload) {
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit page{4096, limit.rlim_max};
  if (world.rank() == 2) setrlimit(RLIMIT_FSIZE, &page);
  std::string problem;
  try {
    auto compute = test_compute<float>();
    const std::string host = world.rank() < 2 ? "good" : "bad";
    CentralStorage({world.rank() / 2, host}, Course().settings(sizeof(float)).replica, workload, compute,
                   world);
  } catch (const Error& error) {
    problem = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &limit);
  require(problem.find("the ranks on bad cannot share 0.1 MiB of memory: File too large: use a") == 0,
          world.rank(), "all ranks know that one node has no memory: " + problem);
}

void test_skipped_update(Communicator world, const Workload& workload) {
  const Course course;
  auto compute = test_compute<float>();
  CentralStorage strategy({world.rank() / 2, "here"}, course.settings(sizeof(float)).replica, workload,
                          compute, world);
  if (world.rank() == 0) strategy.initialize();
  strategy.broadcast();
  const int rank = world.rank();
  require(strategy.step(0, 0, rate, {}).finite, rank, "the first step is finite");
  const std::uint64_t before = strategy.parameter_hash();
  const std::vector<float> kept(strategy.tensors().moment1.begin(), strategy.tensors().moment1.end());
  world.barrier();
  float& parameter = strategy.tensors().parameters[0];
  const float good = parameter;
  if (rank == 3) parameter = std::numeric_limits<float>::infinity();
  world.barrier();
  require(!strategy.step(1, batch, rate, {rank == 1, false}).finite, rank, "every rank gets the result");
  if (rank == 3) parameter = good;
  world.barrier();
  require(strategy.parameter_hash() == before, rank, "nothing was updated");
  require(std::equal(kept.begin(), kept.end(), strategy.tensors().moment1.begin()), rank, "and no moment");
  world.barrier();
  const StepResult result = strategy.step(2, 2 * batch, rate, {rank == 1, false});
  require(result.finite && result.any_stop, rank, "training continues, and all ranks know of one's signal");
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
  setenv("MUSTER_BUCKET_BYTES", "65536", 1);  // which no reducer needs to measure then
  Job job = Job::join({.device = Device::cpu});
  if (job.size() != 4) return 2;
  const Communicator world = job.host_world();
  test_bits(world, *workload);
  test_memory<float>(world, *workload);
  test_memory<bfloat16>(world, *workload);
  test_memory<bfloat16>(world, *workload, 1);
  test_no_memory(world, *workload);
  test_skipped_update(world, *workload);
  job.leave();
  return failures == 0 ? 0 : 1;
}
