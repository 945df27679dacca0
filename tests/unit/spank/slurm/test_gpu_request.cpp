// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <optional>
#include <string>

#include "catch.hpp"
#include "isolation_marker.hpp"
#include "slurm/gpu_request.hpp"

using namespace muster::spank;

namespace {

GpuRequest read_request(const std::map<std::string, std::string>& environment) {
  return read_gpu_request([&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}

}  // namespace

TEST_CASE("GPUs in a list of trackable resources are counted in every spelling of Slurm's releases") {
  const auto [tres, count] = GENERATE(table<std::string, int>({
      {"gres:gpu:1", 1},
      {"gres/gpu=1", 1},
      {"gres/gpu:2", 2},
      {"gres/gpu", 1},
      {"gres/gpu:a100", 1},
      {"gres/gpu:a100=2", 2},
      {"gres/gpu:a100:2", 2},
      {"gres:gpu:a100:2", 2},
      {"cpu=4,gres/gpu=2", 2},
      {"gres/gpu:a100=1,gres/gpu:h100=2,mem=1G", 3},
      {"cpu=4", 0},
      {"gres/shard=2", 0},
      {"gres/gpumem=80", 0},
      {"", 0},
      {",,,", 0},
      {"gres/gpu=99999999999999999999", 0},
      {"gres/gpu=65536,gres/gpu=65536", 65536},
  }));
  INFO(tres);
  CHECK(gpus_in_tres(tres) == count);
}

TEST_CASE("The step's GPUs per task override the job's") {
  CHECK(read_request({{"SLURM_GPUS_PER_TASK", "2"}}).per_task == 2);
  CHECK(read_request({{"SLURM_GPUS_PER_TASK", "2"}, {"SLURM_TRES_PER_TASK", "gres/gpu=1"}}).per_task == 1);
  // 22.05, with isolation turned off by the plugin, and without.
  CHECK(read_request({{isolation_marker, "SLURM_GPU_BIND:1"}, {"SLURMD_TRES_BIND", "gpu:none"}}).per_task ==
        1);
  CHECK(read_request({{"SLURMD_TRES_BIND", "gpu:per_task:3"}, {"SLURM_GPUS_PER_TASK", "2"}}).per_task == 3);
  CHECK(read_request({{"SLURM_TRES_BIND", "gres/gpu:per_task:3"}}).per_task == 3);
  CHECK(
      read_request({{"SLURM_TRES_BIND", "gres/gpu:per_task:3"}, {"SLURMD_TRES_BIND", "gpu:none"}}).per_task ==
      0);
  CHECK(read_request({{isolation_marker, "SLURM_GRES_FLAGS:0"}, {"SLURM_GPUS_PER_TASK", "2"}}).per_task == 2);
  CHECK(read_request({}).per_task == 0);
}

TEST_CASE("The binding decides whether Slurm shows each task its own GPUs or all of them") {
  for (const char* binding : {"gpu:per_task:1", "gres/gpu:per_task:1", "gres/gpu:single:2", "gpu:map_gpu:1,0",
                              "gres/nic:none+gres/gpu:per_task:1"})
    CHECK(read_request({{"SLURMD_TRES_BIND", binding}}).bound);
  for (const char* binding : {"gpu:none", "gres/gpu:none", "", "gres/nic:closest", "gpu:closest"})
    CHECK_FALSE(read_request({{"SLURMD_TRES_BIND", binding}}).bound);
  CHECK_FALSE(read_request({}).bound);
  CHECK(read_request({{isolation_marker, "SLURM_GPU_BIND:1"}, {"SLURMD_TRES_BIND", "gpu:none"}}).bound);
  CHECK(read_request({{"SLURM_SHARDS_ON_NODE", "4"}}).bound);
}

TEST_CASE("Slurm's binding of a task overrides the request to srun") {
  CHECK(read_request({{"SLURM_MUSTER_GPU_BIND", "gpu:v,map_gpu:1,0"}, {"SLURM_TRES_BIND", "gres/gpu:none"}})
            .binding == "map_gpu:1,0");
  CHECK(read_request({{"SLURMD_TRES_BIND", "gpu:none"}, {"SLURM_MUSTER_GPU_BIND", "gpu:single:1"}}).binding ==
        "none");
  CHECK(read_request({{"SLURM_GPU_BIND", "verbose,mask_gpu:0x1"}}).binding == "mask_gpu:0x1");
  CHECK(read_request({}).binding.empty());
}

TEST_CASE("Shards and tasks per GPU make tasks share GPUs") {
  for (const char* name : {"SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_TRES"}) {
    CHECK(read_request({{name, "2"}}).shared);
    CHECK(read_request({{name, "2"}}).tasks_per_gpu);
  }
  CHECK(read_request({{"SLURM_SHARDS_ON_NODE", "4"}}).shared);
  CHECK_FALSE(read_request({{"SLURM_SHARDS_ON_NODE", "4"}}).tasks_per_gpu);
  CHECK_FALSE(read_request({}).shared);
}
