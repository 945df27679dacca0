// SPDX-License-Identifier: Apache-2.0
// The `muster` command as a user runs it.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.hpp"
#include "muster_command.hpp"
#include "spank/placement/machines.hpp"

using namespace muster::cli::test;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string& file = two_domains;

}  // namespace

TEST_CASE("muster plan shows the table and the JSON of a topology file") {
  const auto table = run_muster("plan " + file);
  CHECK(table.code == 0);
  CHECK_THAT(table.output, ContainsSubstring("0000:01:00.0") && ContainsSubstring("mlx5_0:1") &&
                               ContainsSubstring("left out: NIC mlx5_2:1"));
  const auto json = run_muster("plan " + file + " --format json --gpus 1 --cpus 2-7 --cpus-per-task 2");
  REQUIRE(json.code == 0);
  const auto parsed = nlohmann::json::parse(json.output);
  REQUIRE(parsed.at("tasks").size() == 1);
  CHECK(parsed.at("tasks").at(0).at("gpus").at(0) == "0000:81:00.0");
  CHECK(parsed.at("tasks").at(0).at("cpus") == "4-5");
  CHECK(parsed.at("tasks").at(0).at("environment").at("NCCL_IB_HCA") == "=mlx5_1:1");
}

TEST_CASE("muster plan draws a topology file, and explains on demand") {
  const auto svg = run_muster("plan " + file + " --format svg");
  CHECK(svg.code == 0);
  CHECK(svg.output.starts_with("<?xml "));
  CHECK(svg.output.ends_with("</svg>\n"));
  CHECK_THAT(svg.output, ContainsSubstring("0000:81:00.0"));
  CHECK_THAT(run_muster("plan " + file).output, !ContainsSubstring("the GPU's"));
  CHECK_THAT(run_muster("plan " + file + " --explain").output, ContainsSubstring("the GPU's"));
}

TEST_CASE("muster plan takes GPUs by address and several per task") {
  const auto result =
      run_muster("plan " + file + " --format json --gpus 0000:81:00.0,0000:01:00.0 --gpus-per-task 2");
  REQUIRE(result.code == 0);
  const auto tasks = nlohmann::json::parse(result.output).at("tasks");
  REQUIRE(tasks.size() == 1);
  CHECK(tasks.at(0).at("gpus").size() == 2);
  CHECK(tasks.at(0).at("memory") == nlohmann::json{0, 1});
}

TEST_CASE("muster plan --machine prints the documented table, legend and reasons") {
  const auto result = run_muster("plan --machine dgx-h100 --explain");
  CHECK(result.code == 0);
  CHECK(result.output ==
        R"(rank  GPU           CPUs    memory  NIC        GPU-CPU  GPU-NIC
0     0000:1b:00.0  0-13    0       mlx5_0:1   NODE     PXB
1     0000:43:00.0  14-27   0       mlx5_3:1   NODE     PXB
2     0000:52:00.0  28-41   0       mlx5_4:1   NODE     PXB
3     0000:61:00.0  42-55   0       mlx5_5:1   NODE     PXB
4     0000:9d:00.0  56-69   1       mlx5_6:1   NODE     PXB
5     0000:c3:00.0  70-83   1       mlx5_9:1   NODE     PXB
6     0000:d1:00.0  84-97   1       mlx5_10:1  NODE     PXB
7     0000:df:00.0  98-111  1       mlx5_11:1  NODE     PXB
legend: PXB several PCI switches, NODE one NUMA domain
ranks 0-3: 14 cores on NUMA 0 (the GPU's)
ranks 4-7: 14 cores on NUMA 1 (the GPU's)
ranks 0-7: memory on the GPU's NUMA domain
rank 0: mlx5_0 PXB from the GPU
rank 1: mlx5_3 PXB from the GPU
rank 2: mlx5_4 PXB from the GPU
rank 3: mlx5_5 PXB from the GPU
rank 4: mlx5_6 PXB from the GPU
rank 5: mlx5_9 PXB from the GPU
rank 6: mlx5_10 PXB from the GPU
rank 7: mlx5_11 PXB from the GPU
note: NVIDIA DGX H100: 2 Xeon Platinum 8480C, 8 H100, 8 ConnectX-7 for computing, as described by )"
        "https://docs.nvidia.com/dgx/dgxh100-user-guide/, https://github.com/NVIDIA/bare-metal-manager-core "
        "(crates/bmc-mock/src/hw/nvidia_dgx_h100.rs), https://github.com/bytedance/flux/issues/14\n");
  const auto idle = run_muster("plan --machine lenovo-h200");
  CHECK_THAT(idle.output,
             ContainsSubstring("\nnote: 64 of 128 cores idle: larger equal shares would not be near"));
  CHECK_THAT(run_muster("plan --machine dgx-h100 --tasks 2 --gpus 0,4 --cpus 0-111:2").output,
             ContainsSubstring("  0-54:2 ") && ContainsSubstring("  56-110:2 "));
}

TEST_CASE("muster plan lists the machines, one line each, and plans for each") {
  const auto result = run_muster("plan --machine list");
  CHECK(result.code == 0);
  CHECK_THAT(result.output, ContainsSubstring("dgx-h100          NVIDIA DGX H100: "));
  std::istringstream lines(result.output);
  int machines = 0;
  for (std::string line; std::getline(lines, line);) {
    CHECK(line.size() <= 120);
    ++machines;
    const auto name = line.substr(0, line.find(' '));
    INFO(name);
    const auto json = nlohmann::json::parse(run_muster("plan --format json --machine " + name).output);
    CHECK(json.at("tasks").size() == json.at("node").at("gpus").size());
    for (const auto& task : json.at("tasks")) CHECK(task.at("gpu_cpu") == "NODE");
    CHECK(run_muster("plan --format svg --machine " + name).code == 0);
  }
  CHECK(machines >= 16);
  CHECK_THAT(run_muster("plan --machine dgx-h999").output,
             ContainsSubstring("No machine is called \"dgx-h999\": there are alps-gh200, "));
}

TEST_CASE("On a machine without GPUs, muster plan suggests --machine") {
  const auto result = shell(
      "d=$(mktemp -d) && mkdir -p $d/sys/devices/system/cpu && echo 0-3 >$d/sys/devices/system/cpu/online && "
      "timeout 60 '" MUSTER_COMMAND "' plan --root $d; code=$?; rm -r $d; exit $code");
  CHECK(result.code == 0);
  CHECK_THAT(result.output,
             ContainsSubstring("no GPU here; `muster plan --machine dgx-h100` shows a machine"));
  CHECK_THAT(run_muster("plan " + file).output, !ContainsSubstring("no GPU here"));
}

TEST_CASE("muster plan works on this machine") {
  CHECK(run_muster("plan").code == 0);
  CHECK(nlohmann::json::parse(run_muster("plan --format json --tasks 1").output).at("node").at("source") ==
        "live");
}

TEST_CASE("Help, version and build parts") {
  CHECK_THAT(run_muster("--help").output, ContainsSubstring("plan") && ContainsSubstring("check-build"));
  CHECK_THAT(run_muster("--version").output, ContainsSubstring("muster " MUSTER_VERSION));
  const auto parts = run_muster("check-build");
  CHECK(parts.code == 0);
  for (const char* part :
       {"Slurm headers", "hwloc", "PMIx", "Open MPI", "oneDNN", "CUDA", "NCCL", "CUDA kernels"}) {
    CHECK_THAT(parts.output, ContainsSubstring(part));
  }
}

TEST_CASE("Bad input causes a one-line error and a non-zero exit code") {
  const auto [arguments, code] = GENERATE(table<std::string, int>({
      {"", 64},
      {"plam", 64},
      {"plan --tasks 0", 64},
      {"plan --tasks many", 64},
      {"plan --format xml", 64},
      {"plan --topology", 64},
      {"plan --topology ''", 64},
      {"plan --tasks -1", 64},
      {"plan --tasks 99999999999999999999", 64},
      {"plan --cpus ''", 64},
      {"plan --gpus ''", 64},
      {"plan --gpus-per-task 0", 64},
      {"plan --tasks-per-gpu 0", 64},
      {"plan --cpus-per-task 0", 64},
      {"plan --smt=3", 64},
      {"plan --root /nowhere", 64},
      {"plan " + file + " --root /", 64},
      {"plan extra", 64},
      {"plan --no-such-option", 64},
      {"plan --topology /nowhere.xml", 65},
      {"plan --topology /", 65},
      {"plan --topology /dev/null", 65},
      {"plan --machine ''", 64},
      {"plan --machine dgx-h100 --root /", 64},
      {"plan " + file + " --machine dgx-h100", 64},
      {"plan --machine dgx-h999", 65},
      {"plan --topology /dev/zero", 65},
      {"plan --topology '" MUSTER_COMMAND "'", 65},
      {"plan " + file + " --tasks 65536", 65},
      {"plan " + file + " --gpus ,", 65},
      {"plan " + file + " --gpus 0,0", 65},
      {"plan " + file + " --gpus 0,0000:01:00.0", 65},
      {"plan " + file + " --cpus 5-1", 65},
      {"plan " + file + " --cpus 0-99999999", 65},
      {"plan " + file + " --tasks 9", 65},
      {"plan " + file + " --gpus 7", 65},
      {"plan " + file + " --gpus nonsense", 65},
      {"plan " + file + " --gpus 0000:99:00.0", 65},
      {"plan " + file + " --cpus 99", 65},
      {"plan " + file + " --cpus x", 65},
  }));
  INFO(arguments);
  const auto result = shell("bash -c \"timeout 60 '" MUSTER_COMMAND "' " + arguments + "\"");
  CHECK(result.code == code);
  CHECK(result.output.starts_with("muster: "));
  CHECK(result.output.size() < 400);
  CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 1);
}

TEST_CASE("The error for an unknown command or option quotes it") {
  const auto [arguments, what] = GENERATE(table<std::string, std::string>({
      {"plam", "unknown command: plam"},
      {"plam --tasks 2", "unknown command: plam"},
      {"pl\x1b[2J", "unknown command: pl?[2J"},
      {"--tasks 2", "unknown option: --tasks"},
      {"", "A subcommand is required"},
  }));
  const auto result = run_muster(arguments);
  CHECK(result.code == 64);
  CHECK(result.output == "muster: " + what + " (see muster --help-all)\n");
}

TEST_CASE("The error for a GPU that the node lacks names the node") {
  CHECK_THAT(run_muster("plan " + file + " --gpus 7").output, ContainsSubstring("this node has 2 "));
  CHECK_THAT(run_muster("plan --gpus 4000").output, !ContainsSubstring("live"));
}

TEST_CASE("A file that hwloc cannot load causes a one-line error") {
  const auto result = shell("f=$(mktemp) && sed /NUMANode/d '" MUSTER_FIXTURES
                            "/split-package.hwloc.xml' >\"$f\" && timeout 60 '" MUSTER_COMMAND
                            "' plan --topology \"$f\"; code=$?; rm \"$f\"; exit $code");
  CHECK(result.code == 65);
  CHECK(result.output.starts_with("muster: "));
  CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 1);
}

TEST_CASE("A named pipe instead of a file is refused without waiting") {
  const auto result = shell("f=$(mktemp -u) && mkfifo \"$f\" && timeout 5 '" MUSTER_COMMAND
                            "' plan --topology \"$f\"; code=$?; rm \"$f\"; exit $code");
  CHECK(result.code == 65);
}

TEST_CASE("Output that cannot be written is an error, in every format") {
  for (const char* format : {"table", "json", "svg"}) {
    const auto full = run_muster("plan " + file + " --format " + format + " > /dev/full");
    CHECK(full.code == 74);
    CHECK(full.output == "muster: standard output cannot be written.\n");
    CHECK(run_muster("plan " + file + " --format " + format + " >&-").code == 74);
  }
  // A reader that closes the pipe early causes no error.
  const auto piped =
      shell("bash -c \"timeout 60 '" MUSTER_COMMAND "' plan " + file + " --format svg | head -c 1\"");
  CHECK(piped.code == 0);
  CHECK(piped.output == "<");
}

TEST_CASE("With --tasks-per-gpu tasks share GPUs, and the number of tasks follows") {
  const auto shared =
      nlohmann::json::parse(run_muster("plan " + file + " --tasks-per-gpu 2 --format json").output);
  REQUIRE(shared.at("tasks").size() == 4);
  CHECK(shared.at("tasks").at(1).at("gpus").at(0) == "0000:01:00.0");
  CHECK(shared.at("tasks").at(2).at("gpus").at(0) == "0000:81:00.0");
  CHECK(nlohmann::json::parse(run_muster("plan " + file + " --gpus-per-task 2 --format json").output)
            .at("tasks")
            .size() == 1);
}
