// SPDX-License-Identifier: Apache-2.0
// `muster exec` as a user runs it.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.hpp"
#include "cpu_set/cpu_set.hpp"
#include "muster_command.hpp"
#include "slurm/binding.hpp"
#include "spank/placement/trees.hpp"

using namespace muster::cli::test;
using Catch::Matchers::ContainsSubstring;
using muster::CpuSet;

namespace {

/// In an environment of these variables and a sanitizer's. before: a command that starts muster, such as
/// taskset.
Result run_exec(const std::string& arguments, const std::string& set = "", const std::string& before = "") {
  return shell("env -i PATH=\"$PATH\" ASAN_OPTIONS=\"$ASAN_OPTIONS\" LSAN_OPTIONS=\"$LSAN_OPTIONS\" " + set +
               " timeout 60 " + before + " '" MUSTER_COMMAND "' exec " + arguments);
}

/// Lines NAME=VALUE.
std::map<std::string, std::string> parse_variables(const std::string& text) {
  std::map<std::string, std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (const auto at = line.find('='); at != std::string::npos)
      found[line.substr(0, at)] = line.substr(at + 1);
  return found;
}

const std::string show =
    " -- sh -c 'echo MASK=$(sed -n s/Cpus_allowed_list:.//p /proc/self/status); env; exit 7'";

std::string at(int local_rank, int local_size) {
  return "--local-rank " + std::to_string(local_rank) + " --local-size " + std::to_string(local_size);
}

}  // namespace

TEST_CASE(
    "muster exec binds the processes of a host to CPUs of their own, and the exit code is the command's") {
  const CpuSet allowed = muster::spank::read_affinity();
  CpuSet seen;
  int count = 0;
  for (const int rank : {0, 1}) {
    const auto result = run_exec(at(rank, 2) + show, "OMP_NUM_THREADS=3");
    CHECK(result.code == 7);
    auto variables = parse_variables(result.output);
    const auto mask = CpuSet::parse_list(variables["MASK"]).value_or(CpuSet());
    CHECK(mask == CpuSet::parse_list(variables["MUSTER_CPUS"]));
    CHECK((!mask.empty() && mask.is_subset_of(allowed)));
    CHECK(variables["OMP_NUM_THREADS"] == "3");
    CHECK_THAT(variables["MUSTER_KEPT"], ContainsSubstring("OMP_NUM_THREADS"));
    CHECK(!variables.contains("HWLOC_HIDE_ERRORS"));
    seen |= mask;
    count += mask.size();
  }
  if (allowed.size() > 1) CHECK(seen.size() == count);
}

TEST_CASE("muster exec stays within the CPUs that it was given, and reports a launcher's binding once") {
  const CpuSet allowed = muster::spank::read_affinity();
  const std::string first = std::to_string(allowed.first());
  for (const int rank : {0, 1}) {
    const auto result = run_exec(at(rank, 2) + show, "", "taskset -c " + first);
    CHECK(parse_variables(result.output)["MASK"] == first);
    const bool reports = result.output.find("if the launcher bound it") != std::string::npos;
    if (allowed.size() > 1) CHECK(reports == (rank == 0));
  }
  CHECK(parse_variables(run_exec("--cpus " + first + show).output)["MASK"] == first);
}

TEST_CASE("muster exec takes its place from the launcher, and without one the process is alone") {
  const std::string torch = "LOCAL_RANK=1 LOCAL_WORLD_SIZE=2";
  CHECK_THAT(run_exec("--report -- true", torch).output,
             ContainsSubstring("muster: exec: local rank 1 of 2: GPU "));
  CHECK_THAT(run_exec("--report -- true").output, ContainsSubstring("local rank 0 of 1"));
  const auto broken = run_exec("-- echo started", "LOCAL_RANK=1");
  CHECK(broken.code == 78);
  CHECK(broken.output ==
        "muster: exec: LOCAL_RANK is set without LOCAL_WORLD_SIZE; give --local-rank R --local-size N\n");
}

TEST_CASE("muster exec passes the command's words as they are") {
  const auto result = run_exec("-- printf '%s|' '[a,b]' -- --help '' --dry-run");
  CHECK(result.code == 0);
  CHECK(result.output == "[a,b]|--|--help||--dry-run|");
  CHECK(run_exec("--muster off -- sh -c 'kill -9 $$'").code != 0);
}

TEST_CASE("muster exec reports errors in one line, with the exit codes of a shell") {
  struct Case {
    const char* arguments;
    int code;
    const char* text;
  };
  for (const auto& one :
       {Case{"-- no-such-command", 127, "no-such-command: command not found"},
        Case{"-- /", 126, "/: Permission denied"}, Case{"", 64, "there is no command"},
        Case{"--", 64, "there is no command"}, Case{"true", 64, "put -- before the command"},
        Case{"--local-rank 2 --local-size 2 -- true", 78, "local rank 2 of 2"},
        Case{"--cpus x -- true", 64, "is not a list of CPUs"}, Case{"--muster cpu=of -- true", 64, "cpu=of"},
        Case{"--muster explain -- true", 64, "muster plan --explain"},
        Case{"--root / --root /proc -- true", 64, "--root"},
        Case{"--cpus 8191 --muster strict -- true", 78, "none of the CPUs 8191 is on this machine"}}) {
    CAPTURE(one.arguments);
    const auto result = run_exec(one.arguments);
    CHECK(result.code == one.code);
    CHECK_THAT(result.output, ContainsSubstring(one.text));
    CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 1);
  }
  const auto unplaced = run_exec("--cpus 8191 -- echo started");
  CHECK(unplaced.code == 0);
  CHECK_THAT(unplaced.output, ContainsSubstring("the command runs without a placement\nstarted\n"));
}

TEST_CASE("muster exec places as muster plan does") {
  const TemporaryFolder tree;
  muster::placement::test::write_machine(tree);
  const std::string root = " --root '" + tree.path().string() + "'";
  const auto plan = run_muster("plan --tasks 2 --format json" + root);
  REQUIRE(plan.code == 0);
  const auto tasks = nlohmann::json::parse(plan.output).at("tasks");
  for (const int rank : {0, 1}) {
    // The network interfaces are this machine's.
    const auto result = run_exec("--dry-run --muster visible=own " + at(rank, 2) + root,
                                 "NCCL_SOCKET_IFNAME=x GLOO_SOCKET_IFNAME=x");
    CHECK(result.code == 0);
    const auto variables = parse_variables(result.output);
    int compared = 0;
    for (const auto& [name, value] : tasks.at(static_cast<std::size_t>(rank)).at("environment").items()) {
      if (name.ends_with("_SOCKET_IFNAME") || name == "CUDA_VISIBLE_DEVICES") continue;
      CAPTURE(name);
      REQUIRE(variables.contains(name));
      CHECK(variables.at(name) == value.get<std::string>());
      ++compared;
    }
    CHECK(compared >= 8);
  }
}

TEST_CASE("muster exec divides a CPU quota over its processes' threads, and leaves their CPUs as they are") {
  const TemporaryFolder tree;
  muster::placement::test::write_machine(tree);  // four cores
  const auto variables = [&](const std::string& options) {
    return parse_variables(
        run_exec("--dry-run " + options + " --root '" + tree.path().string() + "'").output);
  };
  const auto before = variables(at(1, 2));
  CHECK(before.at("OMP_NUM_THREADS") == "2");
  tree.write("proc/self/cgroup", "0::/\n");
  tree.write("sys/fs/cgroup/cpu.max", "250000 100000\n");
  const auto after = variables(at(1, 2));
  CHECK(after.at("OMP_NUM_THREADS") == "1");
  CHECK(after.at("MUSTER_CPUS") == before.at("MUSTER_CPUS"));
  CHECK(variables(at(0, 1) + " --muster gpu=off").at("OMP_NUM_THREADS") == "2");
  tree.write("sys/fs/cgroup/cpu.max", "10000 100000\n");
  CHECK(variables(at(1, 2)).at("OMP_NUM_THREADS") == "1");
  tree.write("sys/fs/cgroup/cpu.max", "800000 100000\n");
  CHECK(variables(at(1, 2)).at("OMP_NUM_THREADS") == "2");
}

TEST_CASE("muster exec divides the GPUs that CUDA_VISIBLE_DEVICES leaves") {
  const TemporaryFolder tree;
  muster::placement::test::write_machine(tree);
  const auto run = [&](const std::string& arguments, const std::string& set) {
    return parse_variables(
        run_exec("--dry-run --root '" + tree.path().string() + "' " + arguments, set).output);
  };
  auto alone = run("", "CUDA_VISIBLE_DEVICES=1");
  CHECK(alone["MUSTER_GPUS"] == "0000:81:00.0");
  CHECK(alone["MUSTER_CPUS"] == "2-3");
  CHECK(!alone.contains("CUDA_VISIBLE_DEVICES"));
  CHECK(run("", "CUDA_VISIBLE_DEVICES=")["MUSTER_GPUS"].empty());
  CHECK(run(at(1, 2), "CUDA_VISIBLE_DEVICES=0,1")["MUSTER_GPUS"] == "0000:81:00.0");
  // A script gave each process its own.
  CHECK(run(at(0, 2), "CUDA_VISIBLE_DEVICES=1")["MUSTER_GPUS"] == "0000:81:00.0");
  CHECK(run(at(1, 2), "CUDA_VISIBLE_DEVICES=0")["MUSTER_GPUS"] == "0000:03:00.0");
  const auto wrong = run_exec("--dry-run --root '" + tree.path().string() + "'", "CUDA_VISIBLE_DEVICES=5");
  CHECK(wrong.code == 78);
  CHECK_THAT(wrong.output, ContainsSubstring("it can open 2"));
  const auto few = run_exec("--dry-run --root '" + tree.path().string() + "' " + at(2, 3), "");
  CHECK(few.code == 78);
  INFO(few.output);
  CHECK_THAT(few.output, ContainsSubstring("GPU"));
}
