// SPDX-License-Identifier: Apache-2.0
// The settings of --strategy=local-sgd, its memory, its checkpoints, and a run of one rank.
#include <algorithm>
#include <sstream>
#include <vector>

#include "catch.hpp"
#include "strategies/memory_estimate.hpp"
#include "temporary_folder.hpp"
#include "trainer/data/refusal.hpp"
#include "trainer/scenarios/small_run.hpp"

using namespace muster;
using namespace small_run_of_one;

namespace {

Options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"muster-train", "--strategy=local-sgd"});
  return *parse_options(static_cast<int>(arguments.size()), arguments.data());
}

/// Zero unless there is such a segment.
std::uint64_t bytes_of(const MemorySegments& segments, const std::string& name) {
  for (const MemorySegment& segment : segments)
    if (segment.name == name) return segment.bytes;
  return 0;
}

Options local_run(const TemporaryFolder& folder, const char* outer_optimizer) {
  Options options = small_run(folder);
  options.strategy = "local-sgd";
  options.sync_every = 20;
  options.outer_optimizer = outer_optimizer;
  options.steps = 50;
  options.schedule = "constant";
  return options;
}

}  // namespace

TEST_CASE("intervals are multiples of --sync-every", "[options][strategies]") {
  CHECK(parse({}).eval_every == 250);
  const Options odd = parse({"--sync-every=30"});
  CHECK(odd.eval_every == 270);
  CHECK(odd.checkpoint_every == 510);
  CHECK(parse({"--sync-every=30", "--eval-every=0", "--checkpoint-every=60"}).eval_every == 0);
  CHECK(parse({"--sync-every=300", "--validation-fraction=0"}).eval_every == 300);
  CHECK(usage_error_text([] {
          parse({"--sync-every=30", "--eval-every=100"});
        }).find("--eval-every 100 is no multiple of --sync-every 30") == 0);
  CHECK(usage_error_text([] {
          parse({"--checkpoint-every=75"});
        }).find("--checkpoint-every 75 is no multiple of --sync-every 50 (the default)") == 0);
}

TEST_CASE("settings that local SGD cannot keep, and settings of local SGD alone, are refused",
          "[options][strategies]") {
  const auto refused = [](const char* option) { return usage_error_text([=] { parse({option}); }); };
  CHECK(refused("--shard-optimizer").find("--shard-optimizer contradicts --strategy=local-sgd") == 0);
  CHECK(refused("--steps=49").find("--sync-every 50 (the default) is longer than --steps 49") == 0);
  CHECK(refused("--outer-momentum=0.5").find("--outer-momentum 0.5 has a meaning with") == 0);
  CHECK(refused("--outer-momentum=1").find("--outer-momentum: '1' must be") == 0);
  CHECK(usage_error_text([] {
          parse({"--worker-ranks=2", "--elastic=2"});
        }).find("--worker-ranks 2 contradicts --elastic") == 0);
  CHECK(refused("--wire-dtype=bf16").find("--wire-dtype bf16 has a meaning with") == 0);
  CHECK(parse({"--wire-dtype=bf16", "--outer-optimizer=nesterov"}).wire_dtype == "bf16");
  CHECK(refused("--sync-every=0").find("--sync-every: '0' must be") == 0);
  CHECK(usage_error_text([] {
          parse({"--model=resnet20", "--sync-batch-norm"});
        }).find("--sync-batch-norm contradicts --strategy=local-sgd") == 0);
  CHECK(usage_error_text([] {
          parse({"--strategy=data-parallel", "--sync-every=9"});
        }).find("--sync-every 9 has a meaning with --strategy=local-sgd only") == 0);
  CHECK(usage_error_text([] { parse({"--strategy=pipelined"}); }).find("--strategy: ") == 0);
}

TEST_CASE("a worker's memory is that of its samples, and the outer optimizer's", "[memory][strategies]") {
  const TemporaryFolder folder;
  const auto workload = read_workload(small_run(folder));
  StrategySettings whole(Replica::Settings{{}, 9, 3}), averaged = whole, nesterov = whole;
  averaged.local_sgd = {10, {}};
  nesterov.local_sgd = {10, {true}};
  const std::uint64_t tensors = workload->table().arena_size * sizeof(float);
  for (const int rank : {0, 2}) {
    const auto plain = estimate_memory(*workload, averaged, rank, 4);
    CHECK(total_bytes(plain) == total_bytes(estimate_memory(*workload, whole, rank, 4)));
    const auto outer = estimate_memory(*workload, nesterov, rank, 4);
    CHECK(total_bytes(outer) == total_bytes(plain) + (rank == 0 ? 3 : 2) * tensors);
    CHECK(bytes_of(outer, "outer momentum") == tensors);
    StrategySettings rounded = nesterov;
    rounded.local_sgd->sends_bfloat16 = true;
    CHECK(total_bytes(estimate_memory(*workload, rounded, rank, 4)) == total_bytes(outer) + tensors / 2);
  }
  // The first two ranks have the samples of the first of two workers.
  averaged.local_sgd->worker_ranks = 2;
  whole.replica.batch = static_cast<int>(share_of(9, 0, 2).count());
  CHECK(total_bytes(estimate_memory(*workload, averaged, 0, 4)) ==
        total_bytes(estimate_memory(*workload, whole, 0, 2)));
  CHECK(bytes_of(estimate_memory(*workload, averaged, 2, 4), "copy for checkpoints") == 0);
  nesterov.replica.on_device = true;
  CHECK(bytes_of(estimate_memory(*workload, nesterov, 0, 4), "outer momentum") == 0);
}

TEST_CASE("a run of local SGD synchronizes at its end, and resumes with the same bits", "[strategies]") {
  const TemporaryFolder folder;
  Options options = local_run(folder, "nesterov");
  CHECK(train_alone(options) == 0);
  const std::string whole = read_checkpoint_bytes(checkpoint_folder(options, 50));
  std::istringstream metrics(content(folder / "run/metrics.jsonl"));
  std::vector<int> synchronized;
  for (std::string line; std::getline(metrics, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record.contains("synchronized")) synchronized.push_back(record.at("step"));
    if (record.contains("train_loss"))
      CHECK((record.at("communicated_bytes") == 40) == !record.contains("synchronized"));
  }
  CHECK(synchronized == std::vector<int>{20, 40});
  const auto summary = nlohmann::json::parse(content(folder / "run/summary.json"));
  CHECK(summary.at("strategy") == "local-sgd");
  CHECK(summary.at("synchronizations") == 3);
  const auto table = models::gpt_tensors(options.model);
  CHECK(summary.at("gradient_bytes") ==
        std::llround(40 + 3 * 4.0 * static_cast<double>(table.arena_size) / 50));

  std::filesystem::remove_all(checkpoint_folder(options, 50));
  CHECK(train_alone(options) == 0);
  CHECK(read_checkpoint_bytes(checkpoint_folder(options, 50)) == whole);
}

TEST_CASE("checkpoints pass from one strategy to another", "[strategies]") {
  const TemporaryFolder folder;
  Options options = local_run(folder, "nesterov");
  options.steps = 40;
  CHECK(train_alone(options) == 0);
  const auto table = models::gpt_tensors(options.model);
  std::vector<float> parameters(table.arena_size), moment1 = parameters, moment2 = parameters,
                                                   outer(table.arena_size, 1.0f);
  const auto read = [&](std::int64_t step) {
    Checkpoint(checkpoint_folder(options, step)).read(table, {parameters, moment1, moment2, outer});
    return std::count(outer.begin(), outer.end(), 0.0f) < static_cast<std::ptrdiff_t>(outer.size() / 2);
  };
  CHECK(read(40));
  Checkpoint(checkpoint_folder(options, 40)).read(table, {parameters, moment1, moment2});
  options.strategy = "data-parallel";
  options.steps = 60;
  CHECK(train_alone(options) == 0);
  CHECK_FALSE(read(60));
  options.strategy = "local-sgd";
  options.steps = 80;
  CHECK(train_alone(options) == 0);
  CHECK(read(80));
  CHECK(last_line(folder / "run/metrics.jsonl").at("validation_loss").get<double>() < 3);
}

TEST_CASE("averages over one rank change no bit", "[strategies]") {
  const TemporaryFolder folder;
  Options options = local_run(folder, "average");
  const auto tensors = [&] {
    CHECK(train_alone(options) == 0);
    return content(checkpoint_folder(options, 50) / "tensors.safetensors");
  };
  const std::string averaged = tensors();
  options.strategy = "data-parallel";
  options.output = (folder / "data-parallel").string();
  CHECK(tensors() == averaged);
}
