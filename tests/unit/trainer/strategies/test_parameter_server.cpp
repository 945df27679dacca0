// SPDX-License-Identifier: Apache-2.0
// The memory of parameter servers whose workers have GPUs.
#include <vector>

#include "catch.hpp"
#include "strategies/memory_estimate.hpp"
#include "temporary_folder.hpp"
#include "trainer/scenarios/small_run.hpp"

using namespace muster;
using namespace small_run_of_one;

TEST_CASE("the host's memory is counted on servers, and on workers with GPUs", "[memory][strategies]") {
  const TemporaryFolder folder;
  const auto workload = read_workload(small_run(folder));
  StrategySettings on_cpus(Replica::Settings{{}, 9, 3});
  on_cpus.replica.real_bytes = sizeof(bfloat16);
  on_cpus.parameter_server = {nullptr, 1, 0, false, 0};
  StrategySettings on_gpus = on_cpus;
  on_gpus.parameter_server->update_threads = 1;
  const auto estimate = [&](const StrategySettings& settings, int rank) {
    return estimate_memory(*workload, settings, rank, 3);
  };
  const auto offloaded = [&](const std::vector<int>& ranks) {
    return estimate_offloaded_memory(*workload, on_gpus, ranks, 3);
  };
  const std::uint64_t floats = workload->table().arena_size * sizeof(float);

  CHECK(offloaded({0}) == total_bytes(estimate(on_cpus, 0)));
  CHECK(total_bytes(estimate(on_gpus, 0)) == offloaded({0}));
  CHECK(estimate_host_memory(*workload, on_gpus, std::vector<int>{0}, 3) == program_bytes);
  // The parameters, the gradients with a few scalars, and the rounded parameters.
  CHECK(offloaded({1}) >= 2 * floats + floats / 2);
  CHECK(offloaded({1}) < 3 * floats);
  CHECK(offloaded({0, 1, 2}) == offloaded({0}) + 2 * offloaded({1}));
  // On the GPU there are only rounded ones.
  CHECK(total_bytes(estimate(on_gpus, 1)) - offloaded({1}) == total_bytes(estimate(on_cpus, 1)) - floats);
  CHECK(offloaded_bytes(estimate(on_cpus, 0)) + offloaded_bytes(estimate(on_cpus, 1)) == 0);

  // What is read ahead is one more copy of the parameters.
  StrategySettings stale = on_cpus, ahead = on_cpus;
  stale.parameter_server->staleness = ahead.parameter_server->staleness = 1;
  stale.parameter_server->prefetches = false;
  CHECK(total_bytes(estimate(ahead, 1)) == total_bytes(estimate(stale, 1)) + floats);
  CHECK(total_bytes(estimate(stale, 1)) == total_bytes(estimate(on_cpus, 1)));
}
