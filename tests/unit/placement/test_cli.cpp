// SPDX-License-Identifier: Apache-2.0
// The `muster` command as a user runs it.
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "catch.hpp"

using Catch::Matchers::ContainsSubstring;

namespace {

struct Result {
  int code = -1;
  std::string output;  // standard output and error
};

Result muster(const std::string& arguments) {
  Result result;
  FILE* pipe = popen(("timeout 60 '" MUSTER_COMMAND "' " + arguments + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer{};
  std::size_t got = 0;
  while ((got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0) result.output.append(buffer.data(), got);
  const int status = pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

const std::string file = "--topology '" MUSTER_FIXTURES "/two-domains.nccl.xml'";

}  // namespace

TEST_CASE("muster plan shows the table and the JSON of a topology file") {
  const auto table = muster("plan " + file);
  CHECK(table.code == 0);
  CHECK_THAT(table.output, ContainsSubstring("0000:01:00.0") && ContainsSubstring("mlx5_0:1") &&
                               ContainsSubstring("left out: NIC mlx5_2:1"));
  const auto json = muster("plan " + file + " --format json --gpus 1 --cpus 2-7 --cpus-per-task 2");
  REQUIRE(json.code == 0);
  const auto parsed = nlohmann::json::parse(json.output);
  REQUIRE(parsed.at("tasks").size() == 1);
  CHECK(parsed.at("tasks").at(0).at("gpus").at(0) == "0000:81:00.0");
  CHECK(parsed.at("tasks").at(0).at("cpus") == "4-5");
  CHECK(parsed.at("tasks").at(0).at("environment").at("NCCL_IB_HCA") == "=mlx5_1:1");
}

TEST_CASE("muster plan draws a topology file, and explains on demand") {
  const auto svg = muster("plan " + file + " --format svg");
  CHECK(svg.code == 0);
  CHECK(svg.output.starts_with("<?xml "));
  CHECK(svg.output.ends_with("</svg>\n"));
  CHECK_THAT(svg.output, ContainsSubstring("0000:81:00.0"));
  CHECK_THAT(muster("plan " + file).output, !ContainsSubstring("the GPU's"));
  CHECK_THAT(muster("plan " + file + " --explain").output, ContainsSubstring("the GPU's"));
}

TEST_CASE("muster plan takes GPUs by address and several per task") {
  const auto result =
      muster("plan " + file + " --format json --gpus 0000:81:00.0,0000:01:00.0 --gpus-per-task 2");
  REQUIRE(result.code == 0);
  const auto tasks = nlohmann::json::parse(result.output).at("tasks");
  REQUIRE(tasks.size() == 1);
  CHECK(tasks.at(0).at("gpus").size() == 2);
  CHECK(tasks.at(0).at("memory") == nlohmann::json{0, 1});
}

TEST_CASE("muster plan works on this machine") {
  CHECK(muster("plan").code == 0);
  CHECK(nlohmann::json::parse(muster("plan --format json --tasks 1").output).at("node").at("source") ==
        "live");
}

TEST_CASE("Help, version and build parts") {
  CHECK_THAT(muster("--help").output, ContainsSubstring("plan") && ContainsSubstring("check-build"));
  const auto help = muster("plan --help").output;
  for (const char* option : {"--topology", "--tasks", "--gpus-per-task", "--gpus", "--cpus-per-task",
                             "--cpus", "--smt", "--format"}) {
    CHECK_THAT(help, ContainsSubstring(option));
  }
  CHECK_THAT(muster("--version").output, ContainsSubstring("muster " MUSTER_VERSION));
  const auto parts = muster("check-build");
  CHECK(parts.code == 0);
  for (const char* part : {"Slurm headers", "hwloc", "PMIx", "Open MPI", "oneDNN", "CUDA", "NCCL"}) {
    CHECK_THAT(parts.output, ContainsSubstring(part));
  }
}

TEST_CASE("Bad input gets one line and a non-zero exit") {
  const auto [arguments, code] = GENERATE(table<std::string, int>({
      {"", 64},
      {"plam", 64},
      {"plan --tasks 0", 64},
      {"plan --tasks many", 64},
      {"plan --format xml", 64},
      {"plan --topology", 64},
      {"plan --no-such-option", 64},
      {"plan --topology /nowhere.xml", 65},
      {"plan " + file + " --tasks 9", 65},
      {"plan " + file + " --gpus 7", 65},
      {"plan " + file + " --gpus nonsense", 65},
      {"plan " + file + " --gpus 0000:99:00.0", 65},
      {"plan " + file + " --cpus 99", 65},
      {"plan " + file + " --cpus x", 65},
  }));
  INFO(arguments);
  const auto result = muster(arguments);
  CHECK(result.code == code);
  CHECK(result.output.starts_with("muster: "));
  CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 1);
}

TEST_CASE("A full disk behind standard output is an error") {
  const auto result = muster("plan " + file + " 2>&1 > /dev/full");
  CHECK(result.code == 74);
}
