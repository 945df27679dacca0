// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "catch.hpp"
#include "launcher/launcher_detection.hpp"
#include "roster/roster.hpp"
#include "runtime/launcher/variables.hpp"

using namespace muster;
using namespace muster::bootstrap;

namespace {

JoinRecord make_record(int rank, const std::string& host) {
  JoinRecord record;
  record.hello.rank = rank;
  record.hello.host = host;
  record.hello.boot_id = "boot-" + host;
  record.hello.muster_version = "1.2.3";
  return record;
}

std::string refusal(const std::vector<JoinRecord>& records, ErrorCode fault) {
  try {
    check_roster(records);
  } catch (const Error& error) {
    REQUIRE(error.code() == fault);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE(
    "when host name and boot id are equal, ranks share a host; hosts are in order of their lowest rank") {
  std::vector<Hello> roster;
  for (const char* host : {"b", "a", "b", "a", "c"})
    roster.push_back(make_record(static_cast<int>(roster.size()), host).hello);
  roster[3].boot_id = "another container";
  auto const host_map = map_ranks_to_hosts(roster);
  REQUIRE(host_map.hosts == 4);
  REQUIRE(host_map.host_of == std::vector<int>{0, 1, 0, 2, 3});
  REQUIRE(roster[2].local_rank == 1);
  REQUIRE(roster[3].local_rank == 0);
}

TEST_CASE("when versions differ in major or minor, the error names both; patch versions may differ") {
  std::vector<JoinRecord> records{make_record(0, "a"), make_record(1, "b")};
  records[1].hello.muster_version = "1.2.9";
  REQUIRE(refusal(records, ErrorCode::environment).empty());
  records[1].hello.muster_version = "1.3.0";
  auto text = refusal(records, ErrorCode::environment);
  REQUIRE(text.find("rank 1 (host b)") != std::string::npos);
  REQUIRE(text.find("1.3.0") != std::string::npos);
  REQUIRE(text.find("1.2.3") != std::string::npos);
  records[1].hello.muster_version = "1.2.3";
  records[1].hello.plugin_version = "2.2.3";
  text = refusal(records, ErrorCode::environment);
  REQUIRE(text.find("plugin 2.2.3") != std::string::npos);
  REQUIRE(text.find("--muster=off") != std::string::npos);
}

TEST_CASE("when one rank has an error, or only some have a GPU, all ranks get the error") {
  std::vector<JoinRecord> records{make_record(0, "a"), make_record(1, "b"), make_record(2, "b")};
  records[0].on_gpu = records[1].on_gpu = true;
  REQUIRE(refusal(records, ErrorCode::environment).find("rank 2 (host b) has none") != std::string::npos);
  records[0].on_gpu = false;
  records[2].on_gpu = true;
  REQUIRE(refusal(records, ErrorCode::environment).find("rank 0 (host a) has none") != std::string::npos);
  CHECK_NOTHROW(check_roster(records, 1));
  CHECK_NOTHROW(check_roster(records, 4));
  records[1].error = "rank 1: no driver";
  records[1].error_code = ErrorCode::device;
  REQUIRE(refusal(records, ErrorCode::device) == "rank 1: no driver");
  records[2].error = "rank 2: no driver";
  REQUIRE(refusal(records, ErrorCode::device) == "rank 1: no driver (and 1 more rank)");
}

TEST_CASE("when ranks are many, their description stays short") {
  std::vector<Hello> roster;
  std::vector<int> all;
  for (int r = 0; r < 10; ++r) {
    roster.push_back(make_record(r, "h").hello);
    all.push_back(r);
  }
  roster[0].gpu = "0000:3b:00.0";
  REQUIRE(describe_ranks(roster, all, 2) == "rank 0 (host h, GPU 0000:3b:00.0), rank 1 (host h) and 8 more");
}

TEST_CASE("when ranks outnumber the CPUs that they may use, they share cores") {
  std::vector<Hello> roster;
  for (int r = 0; r < 4; ++r) roster.push_back(make_record(r, "h").hello);
  for (auto& hello : roster) hello.cpus = "0-63";
  REQUIRE_FALSE(shares_cores(roster, 0));
  for (auto& hello : roster) hello.cpus = "0-1";
  REQUIRE(shares_cores(roster, 0));
  roster[1].cpus = "1";
  roster[0].cpus = roster[2].cpus = "0";
  roster[3].cpus = "2";
  REQUIRE(shares_cores(roster, 0));
  REQUIRE_FALSE(shares_cores(roster, 3));
}

TEST_CASE("when several tasks cannot find each other, they are refused, whichever launcher started them") {
  REQUIRE_FALSE(check_singleton_allowed(variables({})));
  // A batch script, and an interactive single task.
  REQUIRE_FALSE(check_singleton_allowed(
      variables({{"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}, {"SLURM_NTASKS", "8"}})));
  REQUIRE_FALSE(check_singleton_allowed(
      variables({{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}})));
  auto error = check_singleton_allowed(variables({{"SLURM_PROCID", "0"},
                                                  {"SLURM_STEP_ID", "0"},
                                                  {"SLURM_STEP_NUM_TASKS", "4"},
                                                  {"SLURM_MPI_TYPE", "pmi2"}}));
  REQUIRE(error);
  REQUIRE(error->code() == ErrorCode::environment);
  REQUIRE_FALSE(error->reported_elsewhere());
  REQUIRE(std::string(error->what()).find("add --mpi=pmix to srun, in place of --mpi=pmi2") !=
          std::string::npos);
  error = check_singleton_allowed(
      variables({{"SLURM_PROCID", "3"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}}));
  REQUIRE((error && error->reported_elsewhere()));
  REQUIRE(check_singleton_allowed(variables({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}}))
              ->reported_elsewhere());
  REQUIRE(check_singleton_allowed(variables({{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}})));
  REQUIRE(check_singleton_allowed(variables({{"WORLD_SIZE", "2"}, {"RANK", "0"}})));
  REQUIRE_FALSE(check_singleton_allowed(variables({{"WORLD_SIZE", "2"}})));
}

TEST_CASE("when PMIx is announced but does not start, the process does not run as a single rank") {
  auto error = check_pmix_required(variables({{"PMIX_NAMESPACE", "prterun-a-1@1"}, {"PMIX_RANK", "0"}}),
                                   "UNREACHABLE");
  REQUIRE((error && error->code() == ErrorCode::environment && !error->reported_elsewhere()));
  REQUIRE(std::string(error->what()).find("did not start: UNREACHABLE") != std::string::npos);
  error = check_pmix_required(variables({{"PMIX_NAMESPACE", "x"}, {"PMIX_RANK", "3"}}), "UNREACHABLE");
  REQUIRE((error && error->reported_elsewhere()));
  // A launcher that reports the number of tasks.
  std::map<std::string, std::string> step{{"PMIX_NAMESPACE", "x"},
                                          {"PMIX_RANK", "0"},
                                          {"SLURM_PROCID", "0"},
                                          {"SLURM_STEP_ID", "0"},
                                          {"SLURM_STEP_NUM_TASKS", "1"}};
  REQUIRE_FALSE(check_pmix_required(variables(step), "UNREACHABLE"));
  step["SLURM_STEP_NUM_TASKS"] = "4";
  REQUIRE_FALSE(check_pmix_required(variables(step), "UNREACHABLE"));  // joins without PMIx
}

TEST_CASE("when a PMIx server does not answer, the error names releases that do not work together") {
  auto const first = variables({{"PMIX_RANK", "0"}});
  auto const error =
      make_pmix_timeout_error(first, "OpenPMIx 5.0.7 (PMIx Standard: 5.1)", "n0", std::chrono::seconds(2));
  REQUIRE((error.code() == ErrorCode::deadline && !error.reported_elsewhere()));
  REQUIRE(
      std::string(error.what()) ==
      "join: the PMIx server on host n0 did not answer within 2 s: see the log of slurmd or mpirun there");
  auto const known = make_pmix_timeout_error(
      variables({{"PMIX_RANK", "1"}}), "OpenPMIx 5.0.8, repo rev: v5.0.8", "n0", std::chrono::seconds(2));
  REQUIRE(known.reported_elsewhere());
  REQUIRE(std::string(known.what())
              .ends_with("(this process has PMIx 5.0.8, which does not start under Slurm before 25.11)"));
}

TEST_CASE("when PMIx reports no size, the error names the folder that may be full") {
  auto const on_full_tmp = check_size_consistency(
      variables({{"OMPI_COMM_WORLD_SIZE", "8"}, {"PMIX_SERVER_TMPDIR", "/tmp/ompi.n1.0/pid.7"}}), "11141121",
      0);
  REQUIRE(on_full_tmp);
  REQUIRE(std::string(on_full_tmp->what()) ==
          "join: PMIx does not report how many ranks the job has: is /tmp/ompi.n1.0/pid.7 full, or its file "
          "system read-only?");
}

TEST_CASE("when PMIx's size differs from its own launcher's, it is an error") {
  // mpirun inside an allocation: its daemons are the step's tasks, the ranks are mpirun's.
  auto const below_mpirun = variables({{"OMPI_COMM_WORLD_SIZE", "8"},
                                       {"SLURM_PROCID", "1"},
                                       {"SLURM_STEP_ID", "0"},
                                       {"SLURM_STEP_NUM_TASKS", "2"}});
  REQUIRE_FALSE(check_size_consistency(below_mpirun, "prterun-node-1@1", 8));
  REQUIRE(check_size_consistency(below_mpirun, "prterun-node-1@1", 2));
  auto const in_step =
      variables({{"SLURM_PROCID", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}});
  REQUIRE_FALSE(check_size_consistency(in_step, "slurm.pmix.5.0", 4));
  auto const error = check_size_consistency(in_step, "slurm.pmix.5.0", 1);
  REQUIRE((error && error->code() == ErrorCode::environment && error->reported_elsewhere()));
  // Another PMIx server inside the step: its own count, but not four jobs of one.
  REQUIRE_FALSE(check_size_consistency(in_step, "prterun-node-1@1", 8));
  REQUIRE(check_size_consistency(in_step, "singleton.node-1.77", 1));
  REQUIRE_FALSE(check_size_consistency(below_mpirun, "prterun-node-1@1", 8));
}
