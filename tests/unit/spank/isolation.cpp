// SPDX-License-Identifier: Apache-2.0
#include "isolation.hpp"

#include <cstdlib>

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

TEST_CASE("srun asks for shared devices only for a step that is to be placed") {
  const CleanEnvironment clean;
  ask_for_shared_devices(Settings{});
  CHECK(std::getenv(bind_variable) == nullptr);

  setenv(wish_variable, "off", 1);
  ask_for_shared_devices(Settings{Mode::automatic});
  CHECK(std::getenv(bind_variable) == nullptr);

  setenv(wish_variable, "auto", 1);
  ask_for_shared_devices(Settings{});
  REQUIRE(std::getenv(bind_variable) != nullptr);
  CHECK(std::string(std::getenv(bind_variable)) == "none");
}

TEST_CASE("A GPU binding that the user chose is left alone") {
  const CleanEnvironment clean;
  setenv(wish_variable, "auto", 1);
  setenv(bind_variable, "single:1", 1);
  ask_for_shared_devices(Settings{});
  CHECK(std::string(std::getenv(bind_variable)) == "single:1");
  unsetenv(bind_variable);

  for (const char* chosen : {"SLURM_TRES_BIND", "SLURM_GRES_FLAGS"}) {
    setenv(chosen, "chosen", 1);
    ask_for_shared_devices(Settings{});
    CHECK(std::getenv(bind_variable) == nullptr);
    unsetenv(chosen);
  }
}

TEST_CASE("A missing device file is no denial") {
  CHECK(allowed_minors({0, 5}, "/nonexistent") == std::vector<int>{0, 5});
  CHECK(allowed_minors({}, "/nonexistent").empty());
}

TEST_CASE("The notice says what isolation costs and how to avoid it, in one line") {
  const std::string text = isolation_notice("n0", 1, 4);
  CHECK(text.find("1 of the step's 4 GPUs") != std::string::npos);
  CHECK(text.find("NVLink") != std::string::npos);
  CHECK(text.find("--gpu-bind=none") != std::string::npos);
  CHECK(text.find('\n') == std::string::npos);
}
