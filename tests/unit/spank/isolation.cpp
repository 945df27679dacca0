// SPDX-License-Identifier: Apache-2.0
#include "isolation.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "catch.hpp"

using namespace muster::spank;

namespace {
constexpr const char* wish_variable = "_SLURM_SPANK_OPTION_muster_muster";
constexpr const char* bind_variable = "SLURM_GPU_BIND";

struct CleanEnvironment {
  CleanEnvironment() { clear(); }
  ~CleanEnvironment() { clear(); }
  static void clear() {
    for (const char* name : {wish_variable, bind_variable, "SLURM_TRES_BIND", "SLURM_GRES_FLAGS"})
      unsetenv(name);
  }
};
}  // namespace

TEST_CASE("srun asks for shared devices only inside a job that was submitted with --muster") {
  const CleanEnvironment clean;
  ask_for_shared_devices({"srun", "true"});
  CHECK(std::getenv(bind_variable) == nullptr);

  setenv(wish_variable, "off", 1);
  ask_for_shared_devices({"srun", "true"});
  CHECK(std::getenv(bind_variable) == nullptr);

  setenv(wish_variable, "auto", 1);
  ask_for_shared_devices({"srun", "--muster=off", "true"});
  CHECK(std::getenv(bind_variable) == nullptr);

  ask_for_shared_devices({"srun", "true"});
  REQUIRE(std::getenv(bind_variable) != nullptr);
  CHECK(std::string(std::getenv(bind_variable)) == "none");
}

TEST_CASE("A GPU binding that the user chose is left alone") {
  const CleanEnvironment clean;
  setenv(wish_variable, "auto", 1);
  setenv(bind_variable, "single:1", 1);
  ask_for_shared_devices({"srun"});
  CHECK(std::string(std::getenv(bind_variable)) == "single:1");
  unsetenv(bind_variable);

  for (const char* chosen : {"SLURM_TRES_BIND", "SLURM_GRES_FLAGS"}) {
    setenv(chosen, "gres/gpu:closest", 1);
    ask_for_shared_devices({"srun"});
    CHECK(std::getenv(bind_variable) == nullptr);
    CHECK(std::string(std::getenv(chosen)) == "gres/gpu:closest");
    unsetenv(chosen);
  }
}

TEST_CASE("A per-task binding that --gpus-per-task of the job implies is nobody's choice") {
  const CleanEnvironment clean;
  setenv(wish_variable, "auto", 1);
  setenv("SLURM_TRES_BIND", "gres/gpu:per_task:1", 1);
  ask_for_shared_devices({"srun"});
  CHECK(std::string(std::getenv("SLURM_TRES_BIND")) == "gres/gpu:none");
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
