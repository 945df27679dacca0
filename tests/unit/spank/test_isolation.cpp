// SPDX-License-Identifier: Apache-2.0
#include "gpus/isolation.hpp"

#include <filesystem>
#include <fstream>
#include <map>

#include "catch.hpp"

using namespace muster::spank;

namespace {

using Environment = std::map<std::string, std::string>;
constexpr SlurmVersion debian{22, 5, 8};

std::string lift(const SlurmVersion& slurm, const char* words, int gpus_per_task,
                 const Environment& environment = {}, const std::vector<std::string_view>& arguments = {}) {
  SrunCommand srun;
  if (words != nullptr) srun.words = parse_words(words);
  srun.gpus_per_task = gpus_per_task;
  const auto found = lift_isolation(slurm, srun, parse_settings(arguments), [&](const char* name) {
    const auto at = environment.find(name);
    return at == environment.end() ? nullptr : at->second.c_str();
  });
  return found ? found->variable + "=" + found->value + " " + mark_of(*found) : "";
}

}  // namespace

TEST_CASE("srun asks for shared devices only for a step that will be placed with GPUs told apart") {
  CHECK(lift(debian, nullptr, 1).empty());
  CHECK(lift(debian, "auto", 1) == "SLURM_GPU_BIND=none SLURM_GPU_BIND:1");
  CHECK(lift(debian, nullptr, 1, {}, {"default=auto"}) == "SLURM_GPU_BIND=none SLURM_GPU_BIND:1");
  for (const char* words : {"off", "gpu=off", "env=off"}) {
    CHECK(lift(debian, words, 1).empty());
    CHECK(lift(debian, words, 1, {}, {"default=auto"}).empty());
    CHECK(lift({24, 5, 0}, words, 1).empty());
  }
  // Nothing isolates without --gpus-per-task, and there would be no share to fall back to.
  CHECK(lift(debian, "auto", 0).empty());
}

TEST_CASE("The administrator can keep Slurm's isolation") {
  CHECK(lift(debian, "auto", 1, {}, {"isolation=keep"}).empty());
  CHECK(lift({24, 5, 0}, "auto", 1, {}, {"isolation=keep"}).empty());
  CHECK_FALSE(lift(debian, "auto", 1, {}, {"isolation=share"}).empty());
}

TEST_CASE("Slurm 23.11.4 has a flag that leaves its own binding in place; an older srun would end at it") {
  const std::string flag = "SLURM_GRES_FLAGS=allow-task-sharing SLURM_GRES_FLAGS:0";
  for (const SlurmVersion& slurm :
       {SlurmVersion{23, 11, 4}, {23, 11, 10}, {24, 5, 0}, {25, 11, 1}, {26, 5, 0}})
    CHECK(lift(slurm, "auto", 0) == flag);
  for (const SlurmVersion& slurm : {SlurmVersion{21, 8, 5}, {22, 5, 8}, {23, 2, 7}, {23, 11, 3}, {}})
    CHECK(lift(slurm, "auto", 1) == "SLURM_GPU_BIND=none SLURM_GPU_BIND:1");
  CHECK(lift({24, 5, 0}, "auto", 0, {{"SLURM_GRES_FLAGS", "enforce-binding"}}) ==
        "SLURM_GRES_FLAGS=enforce-binding,allow-task-sharing SLURM_GRES_FLAGS:0");
  CHECK(lift({24, 5, 0}, "auto", 0, {{"SLURM_GRES_FLAGS", "allow-task-sharing"}}).empty());
  CHECK(flags_before_lift("allow-task-sharing").empty());
  CHECK(flags_before_lift("enforce-binding,allow-task-sharing") == "enforce-binding");
  CHECK(flags_before_lift("enforce-binding") == "enforce-binding");
}

TEST_CASE("A GPU binding that the user chose is left alone, by either way") {
  for (const SlurmVersion& slurm : {debian, SlurmVersion{24, 5, 0}}) {
    CHECK(lift(slurm, "auto", 1, {{"SLURM_GPU_BIND", "single:1"}}).empty());
    CHECK(lift(slurm, "auto", 1, {{"SLURM_TRES_BIND", "gres/gpu:closest"}}).empty());
    // On the command line it wins over a variable, but the flag would apply beside it.
    SrunCommand srun{parse_words("auto"), 1, "gpu:closest"};
    CHECK_FALSE(lift_isolation(slurm, srun, {}, [](const char*) { return nullptr; }));
    srun.gpu_binding.reset();
    CHECK(lift_isolation(slurm, srun, {}, [](const char*) { return nullptr; }));
  }
}

TEST_CASE("A per-task binding that --gpus-per-task of the job implies is nobody's choice") {
  const Environment implied = {{"SLURM_TRES_BIND", "gres/gpu:per_task:1"}};
  CHECK(lift({23, 11, 0}, "auto", 1, implied) == "SLURM_TRES_BIND=gres/gpu:none SLURM_TRES_BIND:1");
  CHECK(lift({24, 5, 0}, "auto", 1, implied) == "SLURM_GRES_FLAGS=allow-task-sharing SLURM_GRES_FLAGS:0");
}

TEST_CASE("A task that is not placed gets the GPUs that Slurm would have given it") {
  const auto share = [](const char* mark, const char* binding, const char* devices, int local_rank) {
    const OwnShare own = own_share(mark, binding, devices, local_rank);
    return own.problem.empty() ? own.cuda_devices : "problem";
  };
  CHECK(share("SLURM_GPU_BIND:1", "gpu:none", "0,1,2,3", 0) == "0");
  CHECK(share("SLURM_GPU_BIND:1", "gpu:none", "0,1,2,3", 3) == "3");
  CHECK(share("SLURM_GPU_BIND:2", nullptr, "4,5,6,7", 1) == "6,7");
  CHECK(share("SLURM_TRES_BIND:1", "gres/gpu:none", "MIG-a,MIG-b", 1) == "MIG-b");
}

TEST_CASE("Under the flag, Slurm's dealing by number gives way only where nobody bound the GPUs") {
  CHECK(dealt_by_default("SLURM_GRES_FLAGS:0", "gres/gpu:per_task:1", false));
  CHECK(dealt_by_default("SLURM_GRES_FLAGS:0", "gres/gpu:single:2", true));
  CHECK_FALSE(dealt_by_default("SLURM_GRES_FLAGS:0", "gres/gpu:single:2", false));
  CHECK_FALSE(dealt_by_default("SLURM_GRES_FLAGS:0", "gres/gpu:map_gpu:1,0", false));
  CHECK_FALSE(dealt_by_default("SLURM_GRES_FLAGS:0", nullptr, false));
  CHECK_FALSE(dealt_by_default("SLURM_GPU_BIND:1", "gres/gpu:per_task:1", false));
  CHECK_FALSE(dealt_by_default(nullptr, "gres/gpu:per_task:1", false));
}

TEST_CASE("Where nothing was lifted, or Slurm binds all the same, a task keeps what it has") {
  for (const auto& [mark, binding] :
       std::vector<std::pair<const char*, const char*>>{{nullptr, "gpu:none"},
                                                        {"SLURM_GRES_FLAGS:0", "gpu:per_task:1"},
                                                        {"SLURM_GPU_BIND:1", "gpu:per_task:1"},
                                                        {"SLURM_GPU_BIND:1", "gpu:closest"},
                                                        {"nonsense", "gpu:none"},
                                                        {"", nullptr}}) {
    CHECK(own_share(mark, binding, "0", 1).cuda_devices.empty());
    CHECK(own_share(mark, binding, nullptr, 1).problem.empty());
  }
}

TEST_CASE("A share that cannot be told is a problem, not a neighbour's GPU") {
  CHECK_FALSE(own_share("SLURM_GPU_BIND:1", "gpu:none", nullptr, 0).problem.empty());
  CHECK_FALSE(own_share("SLURM_GPU_BIND:1", "gpu:none", "0", 1).problem.empty());
  CHECK_FALSE(own_share("SLURM_GPU_BIND:2", "gpu:none", "0,1,2", 1).problem.empty());
  CHECK_FALSE(own_share("SLURM_GPU_BIND:1", "gpu:none", "0,1", -1).problem.empty());
}

TEST_CASE("Where no device file is there nothing is hidden; where some are, the missing ones are") {
  CHECK(allowed_minors({0, 5}, "/nonexistent") == std::vector<int>{0, 5});
  CHECK(allowed_minors({}, "/nonexistent").empty());
  char folder[] = "/tmp/muster-isolation-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  std::ofstream(std::string(folder) + "/nvidia5").put('x');
  CHECK(allowed_minors({0, 5}, folder) == std::vector<int>{5});
  muster::placement::Node node;
  for (int minor : {0, 5}) {
    muster::placement::Gpu gpu;
    gpu.minor = minor;
    node.gpus.push_back(gpu);
  }
  CHECK(devices_confined(node, {5}, folder));
  CHECK_FALSE(devices_confined(node, {0, 5}, folder));
  std::filesystem::remove_all(folder);
}

TEST_CASE("The notice says what isolation costs and how to avoid it, in one line") {
  const std::string text = isolation_notice("n0", 1, 4);
  CHECK(text.find("1 of the step's 4 GPUs") != std::string::npos);
  CHECK(text.find("NVLink") != std::string::npos);
  CHECK(text.find("--gpu-bind=none") != std::string::npos);
  CHECK(text.find('\n') == std::string::npos);
}
