// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "catch.hpp"
#include "hooks/activation_check.hpp"

using namespace muster::spank;

namespace {

bool is_requested(const std::vector<const char*>& arguments) {
  return is_requested_by_config(static_cast<int>(arguments.size()), arguments.data());
}
bool default_has(const char* word, const std::vector<const char*>& arguments) {
  return default_contains(word, static_cast<int>(arguments.size()), arguments.data());
}

}  // namespace

TEST_CASE("A list contains a word only as a whole word") {
  CHECK(contains_word("strict", "strict"));
  CHECK(contains_word("cpu=off,strict", "strict"));
  CHECK(contains_word("strict,report", "strict"));
  CHECK_FALSE(contains_word("", "strict"));
  CHECK_FALSE(contains_word("stricter,unstrict", "strict"));
  CHECK_FALSE(contains_word("json=strict", "strict"));
  CHECK_FALSE(contains_word("cpu=off", "off"));
}

TEST_CASE("When no argument places steps, Muster is not requested by configuration") {
  CHECK_FALSE(is_requested({}));
  CHECK_FALSE(is_requested({"default=off"}));
  CHECK_FALSE(is_requested({"default=off", "isolation=keep", "topology=/a", "profiles=/b", "cache=/c"}));
  CHECK_FALSE(is_requested({"isolation=share", "cache=off"}));
}

TEST_CASE("When an argument places steps or may be invalid, Muster is requested by configuration") {
  for (const char* argument : {"default=auto", "default=strict", "default=off,memory=off", "default=",
                               "colour=red", "isolation=off", "topology=relative", "cache=", "profiles", ""})
    CHECK(is_requested({"default=off", argument}));
}

TEST_CASE("The last default decides whether steps are placed and failures are strict") {
  CHECK(default_has("strict", {"default=strict,memory=off"}));
  CHECK(default_has("strict", {"default=auto", "cache=off", "default=strict"}));
  CHECK_FALSE(default_has("strict", {"default=strict", "default=auto"}));
  CHECK(default_has("auto", {"default=strict", "default=auto"}));
  CHECK_FALSE(default_has("auto", {"default=off,memory=off"}));
  CHECK_FALSE(default_has("strict", {}));
}

TEST_CASE("A text in a file is found at any offset, and an unreadable file may contain it") {
  const auto file = std::filesystem::temp_directory_path() / ("muster-asks-" + std::to_string(getpid()));
  for (const std::size_t before : {0, 1, 4091, 4092, 4093, 4094, 4095, 4096, 4097, 100000}) {
    std::ofstream(file) << std::string(before, '-') << '\0' << "--muster" << '\0' << "end";
    CHECK(file_may_contain(file.c_str(), "--mus"));
    CHECK_FALSE(file_may_contain(file.c_str(), "--musk"));
  }
  std::ofstream(file) << "";
  CHECK_FALSE(file_may_contain(file.c_str(), "--mus"));
  std::filesystem::remove(file);
  CHECK(file_may_contain(file.c_str(), "--mus"));
}

TEST_CASE("When the surrounding job has the option, Muster may be requested by srun") {
  CHECK_FALSE(may_be_requested_by_srun());
  for (const char* name :
       {"_SLURM_SPANK_OPTION_muster_muster", "SLURM_SPANK__SLURM_SPANK_OPTION_muster_muster"}) {
    setenv(name, "", 1);
    CHECK(may_be_requested_by_srun());
    unsetenv(name);
  }
}
