// SPDX-License-Identifier: Apache-2.0
// The memory need is known before allocation, and a run that does not fit is refused.
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "catch.hpp"
#include "checkpoint/checkpoint_writer.hpp"
#include "compute/memory.hpp"
#include "machine/host_memory.hpp"
#include "models/model_memory.hpp"
#include "report/format_bytes.hpp"
#include "strategies/memory_estimate.hpp"
#include "temporary_folder.hpp"
#include "trainer/models/model_fixture.hpp"

using namespace muster;

namespace {

std::unique_ptr<Workload> text_workload(const TemporaryFolder& folder, const models::GptConfig& shape) {
  Options options;
  write_file(folder / "text", std::string(4000, 'a'));
  options.data = (folder / "text").string();
  options.model = shape;
  return read_workload(options);
}

std::uint64_t read_checkpoint_bytes(const MemorySegments& segments, const std::string& name) {
  for (const MemorySegment& segment : segments)
    if (segment.name == name) return segment.bytes;
  return 0;
}

/// A simulated machine with these cgroup files and this memory.
void write_machine(const std::filesystem::path& root,
                   const std::vector<std::pair<std::string, std::string>>& files) {
  for (const auto& [name, text] : files) {
    std::filesystem::create_directories((root / name).parent_path());
    write_file(root / name, text);
  }
}

}  // namespace

TEST_CASE("memory blocks are zeroed, also when they are reused", "[memory]") {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, (std::size_t{17} << 20) + 1}) {
    for (int again = 0; again < 2; ++again) {
      auto* block = static_cast<unsigned char*>(compute::host_memory().allocate(bytes));
      CHECK(reinterpret_cast<std::uintptr_t>(block) % (bytes > (16u << 20) ? 2u << 20 : 64u) == 0);
      CHECK(std::all_of(block, block + bytes, [](unsigned char byte) { return byte == 0; }));
      std::fill_n(block, bytes, static_cast<unsigned char>(255));
      compute::host_memory().free(block);
    }
  }
  CHECK(compute::host_memory().allocate(0) == nullptr);
}

TEST_CASE("models allocate exactly the estimated memory", "[memory]") {
  auto compute = test_compute<float>();
  auto precise = test_compute<double>();
  auto rounding = test_compute<bfloat16>();
  for (const models::GptConfig& config :
       {models::GptConfig{1, 2, 32, 24}, models::GptConfig{3, 5, 35, 7, 300},
        models::GptConfig{3, 6, 36, 7, 300, models::LlamaConfig{2, 50}}}) {
    for (const int batch : {1, 2, 5}) {
      CAPTURE(config.width, batch);
      const auto samples = static_cast<std::uint64_t>(batch);
      CHECK(total_bytes(models::gpt_memory(config, samples, 4, 3)) ==
            models::Gpt<float>(config, batch, compute, 3).bytes());
      CHECK(total_bytes(models::gpt_memory(config, samples, 8)) ==
            models::Gpt<double>(config, batch, precise).bytes());
      CHECK(total_bytes(models::gpt_memory(config, samples, 2, 3)) ==
            models::Gpt<bfloat16>(config, batch, rounding, 3).bytes());
      CHECK(total_bytes(models::gpt_memory(config, samples, 2, 3, true)) ==
            models::Gpt<bfloat16>(config, batch, rounding, 3, true).bytes());
      CHECK(total_bytes(models::gpt_memory(config, samples, 8, 0, true)) ==
            models::Gpt<double>(config, batch, precise, 0, true).bytes());
    }
  }
}

TEST_CASE("a replica and its checkpoints allocate exactly the estimated memory", "[memory]") {
  const TemporaryFolder folder;
  const auto workload = text_workload(folder, {2, 3, 33, 20});
  auto compute = test_compute<float>();
  Job job = Job::join({.device = Device::cpu});
  const Replica::Settings settings{{}, 7, 3};
  Replica replica(settings, *workload, compute, job.host_world());
  CheckpointFolder checkpoints(folder / "run", 1);
  CheckpointWriter writer(checkpoints, replica.table());
  const TrainingTensors copy_buffers = writer.copy_buffers();
  const auto plan = estimate_memory(*workload, settings, 0, 1);
  CHECK(read_checkpoint_bytes(plan, "copy for checkpoints") == copy_buffers.parameters.size_bytes() +
                                                                   copy_buffers.moment1.size_bytes() +
                                                                   copy_buffers.moment2.size_bytes());
  CHECK(total_bytes(plan) - read_checkpoint_bytes(plan, "copy for checkpoints") == replica.bytes());
  CHECK(read_checkpoint_bytes(plan, "moments") == 2 * read_checkpoint_bytes(plan, "parameters"));
  auto on_device = settings;
  on_device.on_device = true;
  CHECK(total_bytes(estimate_memory(*workload, on_device, 0, 1)) == replica.bytes());
  job.leave();
}

TEST_CASE("sharded optimizer state reduces each rank's estimated memory", "[memory]") {
  const TemporaryFolder folder;
  const auto workload = text_workload(folder, {2, 3, 33, 20});
  const Replica::Settings whole{{}, 8, 3, 0, false}, shards{{}, 8, 3, 0, true};
  std::uint64_t sum = 0;
  for (int rank = 0; rank < 3; ++rank)
    sum += read_checkpoint_bytes(estimate_memory(*workload, shards, rank, 3), "moments");
  CHECK(sum == read_checkpoint_bytes(estimate_memory(*workload, whole, 0, 3), "moments"));
  CHECK(read_checkpoint_bytes(estimate_memory(*workload, whole, 1, 3), "copy for checkpoints") == 0);
  const Replica::Settings chunks{{}, 8, 3, 2, false};
  CHECK(read_checkpoint_bytes(estimate_memory(*workload, chunks, 1, 3), "sums of chunks") > 0);
}

TEST_CASE("the largest batch that fits", "[memory]") {
  const TemporaryFolder folder;
  const auto workload = text_workload(folder, {2, 3, 33, 20});
  Replica::Settings settings{{}, 1000, 3};
  const auto needed = [&](int batch, const std::vector<int>& here) {
    Replica::Settings with = settings;
    with.batch = batch;
    return estimate_host_memory(*workload, with, here, 3);
  };
  // Both ranks of the host count; a third one is on another host.
  for (const std::vector<int>& here : {std::vector<int>{0, 2}, std::vector<int>{1}}) {
    for (const int batch : {3, 4, 100, 999, 1000}) {
      CAPTURE(batch, here.size());
      const std::uint64_t enough = needed(batch, here);
      const int largest = largest_batch(*workload, settings, here, 3, enough);
      CHECK(largest >= batch);
      CHECK(needed(largest, here) == enough);
      if (largest < 1000) CHECK(needed(largest + 1, here) > enough);
    }
    CHECK(largest_batch(*workload, settings, here, 3, needed(3, here) - 1) == 0);
  }
  const std::vector<int> one{0};
  const std::uint64_t whole = estimate_host_memory(*workload, settings, one, 3),
                      half = program_bytes + (whole - program_bytes) / 2;
  const int micro_batch = largest_micro_batch(*workload, settings, one, 3, half);
  CHECK(micro_batch > 0);
  settings.micro_batch = micro_batch;
  CHECK(estimate_host_memory(*workload, settings, one, 3) <= half);
  settings.micro_batch = 2 * micro_batch + 1;
  CHECK(estimate_host_memory(*workload, settings, one, 3) > half);
  settings.micro_batch = 0;
  CHECK(largest_micro_batch(*workload, settings, one, 3, 1000) == 0);
  CHECK(needed(3, {0, 2}) == needed(3, {0}) + needed(3, {2}));
}

TEST_CASE("free memory is the smallest of a host's limits", "[memory]") {
  const TemporaryFolder folder;
  const auto root = folder.path();
  CHECK(free_memory(root).where == "not known");
  write_machine(root, {{"proc/meminfo", "MemTotal:  900 kB\nMemAvailable:     800 kB\n"}});
  CHECK(free_memory(root).bytes == 800 * 1024);
  CHECK(free_memory(root).where == "available on this host");

  SECTION("version 2: a limit above the process's own cgroup counts, page cache does not") {
    write_machine(root, {{"proc/self/cgroup", "0::/slurm/job_7/step_0\n"},
                         {"sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n"},
                         {"sys/fs/cgroup/slurm/job_7/step_0/memory.current", "1000\n"},
                         {"sys/fs/cgroup/slurm/job_7/memory.max", "500000\n"},
                         {"sys/fs/cgroup/slurm/job_7/memory.current", "200000\n"},
                         {"sys/fs/cgroup/slurm/job_7/memory.stat",
                          "anon 1\ninactive_file 30000\nactive_file 20000\n"}});
    CHECK(free_memory(root).bytes == 350000);
    CHECK(free_memory(root).where == "left in cgroup /slurm/job_7");
    write_file(root / "sys/fs/cgroup/slurm/job_7/memory.max", "100000\n");  // lowered below the usage
    CHECK(free_memory(root).bytes == 0);
  }
  SECTION("version 1, beside a version 2 without the controller") {
    write_machine(root,
                  {{"proc/self/cgroup", "4:cpu,memory:/a/b\n3:cpuset:/\n0::/\nodd line\n"},
                   {"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"},
                   {"sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "5000\n"},
                   {"sys/fs/cgroup/memory/a/memory.limit_in_bytes", "400000\n"},
                   {"sys/fs/cgroup/memory/a/memory.usage_in_bytes", "100000\n"},
                   {"sys/fs/cgroup/memory/a/memory.stat", "inactive_file 7\ntotal_inactive_file 50000\n"}});
    CHECK(free_memory(root).bytes == 350000);
    CHECK(free_memory(root).where == "left in cgroup /a");
  }
  SECTION("a cgroup that is not mounted under its path here, in a container: the mount's root counts") {
    write_machine(root, {{"proc/self/cgroup", "0::/outside/container\n"},
                         {"sys/fs/cgroup/memory.max", "300000\n"},
                         {"sys/fs/cgroup/memory.current", "0\n"}});
    CHECK(free_memory(root).bytes == 300000);
    CHECK(free_memory(root).where == "left in cgroup /");
  }
}

TEST_CASE("bytes are formatted with units", "[memory]") {
  CHECK(format_bytes(0) == "0.0 MiB");
  CHECK(format_bytes(1536 * 1024) == "1.5 MiB");
  CHECK(format_bytes(std::uint64_t{640} << 20) == "640 MiB");
  CHECK(format_bytes(std::uint64_t{3} << 29) == "1.5 GiB");
  CHECK(peak_resident_bytes() > (1u << 20));
}
