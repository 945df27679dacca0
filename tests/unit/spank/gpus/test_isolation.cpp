// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "catch.hpp"
#include "gpus/isolation.hpp"
#include "temporary_folder.hpp"

using namespace muster::spank;

namespace {

using Environment = std::map<std::string, std::string>;
constexpr SlurmVersion debian{22, 5, 8};

std::string describe_override(const SlurmVersion& slurm, const char* words, int gpus_per_task,
                              const Environment& environment = {},
                              const std::vector<std::string_view>& arguments = {}) {
  SrunCommand srun;
  if (words != nullptr) srun.words = parse_words(words);
  srun.gpus_per_task = gpus_per_task;
  const auto found = choose_isolation_override(slurm, srun, parse_settings(arguments), [&](const char* name) {
    const auto at = environment.find(name);
    return at == environment.end() ? nullptr : at->second.c_str();
  });
  return found ? found->variable + "=" + found->value + " " + encode_marker(*found) : "";
}

}  // namespace

TEST_CASE("Isolation is turned off only when the step is placed and its GPUs are assigned") {
  CHECK(describe_override(debian, nullptr, 1).empty());
  CHECK(describe_override(debian, "auto", 1) == "SLURM_GPU_BIND=none SLURM_GPU_BIND:1");
  CHECK(describe_override(debian, nullptr, 1, {}, {"default=auto"}) ==
        "SLURM_GPU_BIND=none SLURM_GPU_BIND:1");
  for (const char* words : {"off", "gpu=off", "env=off"}) {
    CHECK(describe_override(debian, words, 1).empty());
    CHECK(describe_override(debian, words, 1, {}, {"default=auto"}).empty());
    CHECK(describe_override({24, 5, 0}, words, 1).empty());
  }
  // Without --gpus-per-task Slurm does not isolate, and there is no visibility to fall back to.
  CHECK(describe_override(debian, "auto", 0).empty());
}

TEST_CASE("The administrator can keep Slurm's isolation") {
  CHECK(describe_override(debian, "auto", 1, {}, {"isolation=keep"}).empty());
  CHECK(describe_override({24, 5, 0}, "auto", 1, {}, {"isolation=keep"}).empty());
  CHECK_FALSE(describe_override(debian, "auto", 1, {}, {"isolation=share"}).empty());
}

TEST_CASE("From Slurm 23.11.4 on a flag turns isolation off and keeps the binding; older ones reject it") {
  const std::string flag = "SLURM_GRES_FLAGS=allow-task-sharing SLURM_GRES_FLAGS:0";
  for (const SlurmVersion& slurm :
       {SlurmVersion{23, 11, 4}, {23, 11, 10}, {24, 5, 0}, {25, 11, 1}, {26, 5, 0}})
    CHECK(describe_override(slurm, "auto", 0) == flag);
  for (const SlurmVersion& slurm : {SlurmVersion{21, 8, 5}, {22, 5, 8}, {23, 2, 7}, {23, 11, 3}, {}})
    CHECK(describe_override(slurm, "auto", 1) == "SLURM_GPU_BIND=none SLURM_GPU_BIND:1");
  CHECK(describe_override({24, 5, 0}, "auto", 0, {{"SLURM_GRES_FLAGS", "enforce-binding"}}) ==
        "SLURM_GRES_FLAGS=enforce-binding,allow-task-sharing SLURM_GRES_FLAGS:0");
  CHECK(describe_override({24, 5, 0}, "auto", 0, {{"SLURM_GRES_FLAGS", "allow-task-sharing"}}).empty());
  CHECK(original_gres_flags("allow-task-sharing").empty());
  CHECK(original_gres_flags("enforce-binding,allow-task-sharing") == "enforce-binding");
  CHECK(original_gres_flags("enforce-binding") == "enforce-binding");
}

TEST_CASE("When the user chose a GPU binding, isolation is not changed in any version") {
  for (const SlurmVersion& slurm : {debian, SlurmVersion{24, 5, 0}}) {
    CHECK(describe_override(slurm, "auto", 1, {{"SLURM_GPU_BIND", "single:1"}}).empty());
    CHECK(describe_override(slurm, "auto", 1, {{"SLURM_TRES_BIND", "gres/gpu:closest"}}).empty());
    // On the command line it overrides a variable, but the flag would apply in addition.
    SrunCommand srun{parse_words("auto"), 1, "gpu:closest", true};
    CHECK_FALSE(choose_isolation_override(slurm, srun, {}, [](const char*) { return nullptr; }));
    srun.may_bind_gpus = false;
    CHECK(choose_isolation_override(slurm, srun, {}, [](const char*) { return nullptr; }));
  }
}

TEST_CASE("A per-task binding that the job's --gpus-per-task implies is not the user's choice") {
  const Environment implied = {{"SLURM_TRES_BIND", "gres/gpu:per_task:1"}};
  CHECK(describe_override({23, 11, 0}, "auto", 1, implied) ==
        "SLURM_TRES_BIND=gres/gpu:none SLURM_TRES_BIND:1");
  CHECK(describe_override({24, 5, 0}, "auto", 1, implied) ==
        "SLURM_GRES_FLAGS=allow-task-sharing SLURM_GRES_FLAGS:0");
}

TEST_CASE("A task that is not placed gets the GPUs that Slurm would have given it") {
  const auto fallback = [](const char* marker, const char* binding, const char* devices, int local_rank) {
    const FallbackVisibility own =
        find_fallback_visibility(marker, binding, {{"CUDA_VISIBLE_DEVICES", devices}}, local_rank);
    REQUIRE(own.own.size() == 1);
    CHECK(own.problem.empty());
    CHECK(own.own.front().variable == "CUDA_VISIBLE_DEVICES");
    return own.own.front().gpus;
  };
  CHECK(fallback("SLURM_GPU_BIND:1", "gpu:none", "0,1,2,3", 0) == "0");
  CHECK(fallback("SLURM_GPU_BIND:1", "gpu:none", "0,1,2,3", 3) == "3");
  CHECK(fallback("SLURM_GPU_BIND:2", nullptr, "4,5,6,7", 1) == "6,7");
  CHECK(fallback("SLURM_TRES_BIND:1", "gres/gpu:none", "MIG-a,MIG-b", 1) == "MIG-b");
}

TEST_CASE("A task that is not placed gets its own GPUs in each of Slurm's lists, whatever their vendor") {
  // As on a node with gres.conf's amd_gpu_env and intel_gpu_env, where the user has set a variable for CUDA.
  const auto found = find_fallback_visibility(
      "SLURM_GPU_BIND:2", "gpu:none",
      {{"CUDA_VISIBLE_DEVICES", "0"}, {"ROCR_VISIBLE_DEVICES", "0,1,2,3"}, {"ZE_AFFINITY_MASK", "0,1,2,3"}},
      1);
  CHECK(found.problem.empty());
  REQUIRE(found.own.size() == 2);
  CHECK(found.own[0].variable == "ROCR_VISIBLE_DEVICES");
  CHECK(found.own[0].gpus == "2,3");
  CHECK(found.own[1].variable == "ZE_AFFINITY_MASK");
  CHECK(found.own[1].gpus == "2,3");
}

TEST_CASE("With the flag, Slurm's order of GPUs is replaced only when nobody bound the GPUs") {
  CHECK(bound_by_default("SLURM_GRES_FLAGS:0", "gres/gpu:per_task:1", false));
  CHECK(bound_by_default("SLURM_GRES_FLAGS:0", "gres/gpu:single:2", true));
  CHECK_FALSE(bound_by_default("SLURM_GRES_FLAGS:0", "gres/gpu:single:2", false));
  CHECK_FALSE(bound_by_default("SLURM_GRES_FLAGS:0", "gres/gpu:map_gpu:1,0", false));
  CHECK_FALSE(bound_by_default("SLURM_GRES_FLAGS:0", nullptr, false));
  CHECK_FALSE(bound_by_default("SLURM_GPU_BIND:1", "gres/gpu:per_task:1", false));
  CHECK_FALSE(bound_by_default(nullptr, "gres/gpu:per_task:1", false));
}

TEST_CASE("When isolation was not turned off, or Slurm still binds, a task keeps its GPUs") {
  for (const auto& [marker, binding] :
       std::vector<std::pair<const char*, const char*>>{{nullptr, "gpu:none"},
                                                        {"SLURM_GRES_FLAGS:0", "gpu:per_task:1"},
                                                        {"SLURM_GPU_BIND:1", "gpu:per_task:1"},
                                                        {"SLURM_GPU_BIND:1", "gpu:closest"},
                                                        {"nonsense", "gpu:none"},
                                                        {"", nullptr}}) {
    CHECK(find_fallback_visibility(marker, binding, {{"CUDA_VISIBLE_DEVICES", "0"}}, 1).own.empty());
    CHECK(find_fallback_visibility(marker, binding, {}, 1).problem.empty());
  }
}

TEST_CASE("When a task's own GPUs are not known, an error is returned and not a neighbour's GPU") {
  const auto problem = [](const char* marker, const std::vector<GpuList>& lists, int local_rank) {
    const auto found = find_fallback_visibility(marker, "gpu:none", lists, local_rank);
    CHECK(found.own.empty());
    return found.problem;
  };
  CHECK_THAT(problem("SLURM_GPU_BIND:1", {}, 0), Catch::Matchers::ContainsSubstring("no_gpu_env"));
  for (const char* variable : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}) {
    CHECK_FALSE(problem("SLURM_GPU_BIND:1", {{variable, "0"}}, 1).empty());
    CHECK_FALSE(problem("SLURM_GPU_BIND:2", {{variable, "0,1,2"}}, 1).empty());
    CHECK_FALSE(problem("SLURM_GPU_BIND:1", {{variable, "0,1"}}, -1).empty());
  }
}

TEST_CASE("When no device file exists, no GPU is hidden; when some exist, the missing ones are hidden") {
  CHECK(allowed_minors({0, 5}, "/nonexistent") == std::vector<int>{0, 5});
  CHECK(allowed_minors({}, "/nonexistent").empty());
  const TemporaryFolder temporary;
  temporary.write("nvidia5", "x");
  const std::string folder = temporary.path();
  CHECK(allowed_minors({0, 5}, folder) == std::vector<int>{5});
  muster::placement::Node node;
  for (int minor : {0, 5}) {
    muster::placement::Gpu gpu;
    gpu.minor = minor;
    node.gpus.push_back(gpu);
  }
  CHECK(devices_confined(node, {5}, folder));
  CHECK_FALSE(devices_confined(node, {0, 5}, folder));
}

TEST_CASE("The notice explains in one line what isolation costs and how to avoid it") {
  const std::string text = isolation_notice("n0", 1, 4);
  CHECK(text.find("1 of the step's 4 GPUs") != std::string::npos);
  CHECK(text.find("NVLink") != std::string::npos);
  CHECK(text.find("--gpu-bind=none") != std::string::npos);
  CHECK(text.find('\n') == std::string::npos);
}
