// SPDX-License-Identifier: Apache-2.0
// The settings of --strategy=central-storage, its memory, and runs of one rank.
#include <sys/resource.h>

#include <vector>

#include "catch.hpp"
#include "strategies/memory_estimate.hpp"
#include "temporary_folder.hpp"
#include "trainer/data/refusal.hpp"
#include "trainer/scenarios/small_run.hpp"

using namespace muster;
using namespace small_run_of_one;

namespace {

Options parse_central(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"muster-train", "--strategy=central-storage"});
  return *parse_options(static_cast<int>(arguments.size()), arguments.data());
}

std::uint64_t shared_bytes(const MemorySegments& segments) {
  std::uint64_t bytes = 0;
  for (const MemorySegment& segment : segments) bytes += segment.is_shared ? segment.bytes : 0;
  return bytes;
}

}  // namespace

TEST_CASE("settings that contradict central storage are refused", "[options][strategies]") {
  const auto refused = [](const char* option) { return usage_error_text([=] { parse_central({option}); }); };
  CHECK(refused("--shard-optimizer").find("--shard-optimizer contradicts --strategy=central-storage") == 0);
  CHECK(refused("--sync-every=9").find("--sync-every 9 has a meaning with --strategy=local-sgd only") == 0);
  CHECK(refused("--outer-optimizer=nesterov").find("--outer-optimizer nesterov has a meaning") == 0);
  CHECK(setting_warnings(parse_central({}), {1, 1000}) ==
        std::vector<std::string>{"--strategy=central-storage has no effect on 1 rank without a GPU"});
}

TEST_CASE("shared memory is counted once for the ranks of a host", "[memory][strategies]") {
  const TemporaryFolder folder;
  const auto workload = read_workload(small_run(folder));
  StrategySettings replicas(Replica::Settings{{}, 9, 3}), central = replicas;
  central.central_storage.emplace();
  const auto tensors = workload->table().arena_size * sizeof(float);
  const auto segments = estimate_memory(*workload, central, 1, 4);
  CHECK(shared_bytes(segments) == 3 * tensors);
  CHECK(total_bytes(segments) == total_bytes(estimate_memory(*workload, replicas, 1, 4)));
  for (const std::vector<int>& here : {std::vector<int>{1}, std::vector<int>{0, 2, 3}}) {
    CHECK(estimate_host_memory(*workload, replicas, here, 4) -
              estimate_host_memory(*workload, central, here, 4) ==
          (here.size() - 1) * 3 * tensors);
  }
  central.replica.optimizer.kind = OptimizerKind::sgd;
  central.replica.real_bytes = sizeof(bfloat16);
  CHECK(shared_bytes(estimate_memory(*workload, central, 1, 4)) ==
        2 * tensors + compute::aligned_count<std::byte>(tensors / 2));
}

TEST_CASE("with GPUs, state and the reduction are counted in the host's memory", "[memory][strategies]") {
  const TemporaryFolder folder;
  const auto workload = read_workload(small_run(folder));
  StrategySettings settings(Replica::Settings{{}, 9, 3});
  settings.replica.real_bytes = sizeof(bfloat16);
  const std::vector<int> one{1}, two{1, 2};
  settings.central_storage = {0, "here", 1};
  const std::uint64_t shared = shared_bytes(estimate_memory(*workload, settings, 1, 4)),
                      on_one = estimate_offloaded_memory(*workload, settings, one, 4),
                      on_two = estimate_offloaded_memory(*workload, settings, two, 4);
  const auto floats = workload->table().arena_size * sizeof(float);
  CHECK(on_two - on_one == on_one - shared);
  CHECK(on_one - shared >= floats);  // the gradients
  CHECK(on_one - shared < 2 * floats);
  const std::uint64_t on_gpu = estimate_host_memory(*workload, settings, one, 4);
  settings.central_storage.reset();
  // The parameters and two moments are gone.
  CHECK(estimate_host_memory(*workload, settings, one, 4) - on_gpu == 3 * floats);
  CHECK(estimate_offloaded_memory(*workload, settings, one, 4) == 0);
}

TEST_CASE("central storage of one rank changes no bit, and checkpoints pass to it and from it",
          "[strategies]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.schedule = "constant";
  CHECK(train_alone(options) == 0);
  const std::string whole = content(checkpoint_folder(options, 60) / "tensors.safetensors");
  options.output = (folder / "parts").string();
  for (const auto& [steps, strategy] :
       {std::pair{20, "data-parallel"}, std::pair{40, "central-storage"}, std::pair{60, "data-parallel"}}) {
    options.strategy = strategy;
    options.steps = steps;
    CHECK(train_alone(options) == 0);
  }
  CHECK(content(checkpoint_folder(options, 60) / "tensors.safetensors") == whole);
  options.strategy = "central-storage";
  options.output = (folder / "central").string();
  CHECK(train_alone(options) == 0);
  CHECK(content(checkpoint_folder(options, 60) / "tensors.safetensors") == whole);
}

TEST_CASE("without memory to share a run ends before it starts", "[strategies]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.strategy = "central-storage";
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const rlimit small{64 << 10, limit.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const int code = run_exit_code(options);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  CHECK(code == 71);
  CHECK(last_line(folder / "run/status.json").at("state") == "failed");
  CHECK_FALSE(std::filesystem::exists(folder / "run/metrics.jsonl"));
}
