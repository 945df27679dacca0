// SPDX-License-Identifier: Apache-2.0
#include "hooks/activation_check.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "catch.hpp"

using namespace muster::spank;

namespace {

bool ask(const std::vector<const char*>& arguments) {
  return arguments_ask(static_cast<int>(arguments.size()), arguments.data());
}
bool strict(const std::vector<const char*>& arguments) {
  return default_is_strict(static_cast<int>(arguments.size()), arguments.data());
}

}  // namespace

TEST_CASE("A word of a list is found whole only") {
  CHECK(lists("strict", "strict"));
  CHECK(lists("cpu=off,strict", "strict"));
  CHECK(lists("strict,report", "strict"));
  CHECK_FALSE(lists("", "strict"));
  CHECK_FALSE(lists("stricter,unstrict", "strict"));
  CHECK_FALSE(lists("json=strict", "strict"));
  CHECK_FALSE(lists("cpu=off", "off"));
}

TEST_CASE("Arguments that place no step ask for nothing") {
  CHECK_FALSE(ask({}));
  CHECK_FALSE(ask({"default=off"}));
  CHECK_FALSE(ask({"default=off", "isolation=keep", "topology=/a", "profiles=/b", "cache=/c"}));
  CHECK_FALSE(ask({"isolation=share", "cache=off"}));
}

TEST_CASE("Arguments that place steps, or may be wrong, ask") {
  for (const char* argument : {"default=auto", "default=strict", "default=off,memory=off", "default=",
                               "colour=red", "isolation=off", "topology=relative", "cache=", "profiles", ""})
    CHECK(ask({"default=off", argument}));
}

TEST_CASE("The last default decides on strict") {
  CHECK(strict({"default=strict,memory=off"}));
  CHECK(strict({"default=auto", "cache=off", "default=strict"}));
  CHECK_FALSE(strict({"default=strict", "default=auto"}));
  CHECK_FALSE(strict({}));
}

TEST_CASE("A text in a file is found wherever it stands, and what cannot be read may contain it") {
  const auto file = std::filesystem::temp_directory_path() / ("muster-asks-" + std::to_string(getpid()));
  for (const std::size_t before : {0, 1, 4091, 4092, 4093, 4094, 4095, 4096, 4097, 100000}) {
    std::ofstream(file) << std::string(before, '-') << '\0' << "--muster" << '\0' << "end";
    CHECK(may_contain(file.c_str(), "--mus"));
    CHECK_FALSE(may_contain(file.c_str(), "--musk"));
  }
  std::ofstream(file) << "";
  CHECK_FALSE(may_contain(file.c_str(), "--mus"));
  std::filesystem::remove(file);
  CHECK(may_contain(file.c_str(), "--mus"));
}

TEST_CASE("srun is asked by the job around it or on its command line") {
  CHECK_FALSE(srun_may_ask());
  for (const char* name :
       {"_SLURM_SPANK_OPTION_muster_muster", "SLURM_SPANK__SLURM_SPANK_OPTION_muster_muster"}) {
    setenv(name, "", 1);
    CHECK(srun_may_ask());
    unsetenv(name);
  }
}
