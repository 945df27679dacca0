// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "launcher/local_rank.hpp"
#include "variables.hpp"

using namespace muster;
using namespace muster::bootstrap;
using Catch::Matchers::ContainsSubstring;

namespace {

using Set = std::map<std::string, std::string>;

LocalRank find(const Set& set, const GivenLocalRank& given = {}) {
  return find_local_rank(variables(set), given);
}

/// "rank/size rank/size" on the host and in the job.
std::string found(const Set& set, const GivenLocalRank& given = {}) {
  auto const at = find(set, given);
  auto const pair = [](int rank, int size) { return std::to_string(rank) + "/" + std::to_string(size); };
  return at.launcher + " " + pair(at.local_rank, at.local_size) + " " + pair(at.rank, at.world_size);
}

Set operator+(Set set, const Set& more) {
  for (const auto& [name, value] : more) set[name] = value;
  return set;
}

std::string error(const Set& set, const GivenLocalRank& given = {}) {
  try {
    return "found " + found(set, given);
  } catch (const Error& error) {
    return error.what();
  }
}

const Set torch{{"TORCHELASTIC_RUN_ID", "x"},
                {"LOCAL_RANK", "1"},
                {"LOCAL_WORLD_SIZE", "2"},
                {"RANK", "5"},
                {"WORLD_SIZE", "8"}};
const Set open_mpi{{"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                   {"OMPI_COMM_WORLD_RANK", "7"},
                   {"OMPI_COMM_WORLD_SIZE", "12"},
                   {"PMIX_NAMESPACE", "prterun"}};
const Set slurm{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "5"},
                {"SLURM_LOCALID", "1"}, {"SLURM_STEP_NUM_TASKS", "7"},
                {"SLURM_NODEID", "2"},  {"SLURM_STEP_TASKS_PER_NODE", "2(x2),3"}};

}  // namespace

TEST_CASE("each launcher's variables give this process's number on the host") {
  CHECK(found(torch) == "torchrun 1/2 5/8");
  CHECK(found(open_mpi) == "mpirun 3/4 7/12");
  CHECK(found(slurm) == "srun 1/3 5/7");
  CHECK(found({{"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}}) == "mpiexec 1/2 -1/0");
  CHECK(found({{"MV2_COMM_WORLD_LOCAL_RANK", "0"}, {"MV2_COMM_WORLD_LOCAL_SIZE", "2"}}) ==
        "mpirun_rsh 0/2 -1/0");
  CHECK(found({{"PALS_LOCAL_RANKID", "2"}, {"PALS_LOCAL_SIZE", "4"}, {"PMI_RANK", "6"}, {"PMI_SIZE", "8"}}) ==
        "mpiexec 2/4 6/8");
  CHECK(found({{"PMI_LOCAL_RANK", "1"}, {"PMI_LOCAL_SIZE", "2"}}) == "a PMI launcher 1/2 -1/0");
  CHECK(found({{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}}) == "LOCAL_RANK 1/2 -1/0");
}

TEST_CASE("a process that no launcher started is the only one") {
  CHECK(found({}) == " 0/1 -1/0");
  CHECK(found({{"JOB_COMPLETION_INDEX", "3"}}) == " 0/1 -1/0");                  // a pod for each process
  CHECK(found({{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}}) == " 0/1 -1/0");  // a batch script
}

TEST_CASE("a process in a pod of Kubernetes is the only one there, unless a launcher started it") {
  Set const pod{{"JOB_COMPLETION_INDEX", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "p"}};
  CHECK(found(pod) == "a Job of Kubernetes 0/1 -1/0");
  CHECK(found(pod + open_mpi) == found(open_mpi));
  Set const group{{"LWS_WORKER_INDEX", "1"}, {"LWS_GROUP_SIZE", "4"}, {"LWS_LEADER_ADDRESS", "p"}};
  CHECK(found(group) == "LeaderWorkerSet 0/1 -1/0");
  CHECK(found({{"VC_TASK_INDEX", "1"}, {"VC_RANKS_NUM", "2"}, {"VC_RANKS_HOSTS", "p,q"}}) ==
        "Volcano 0/1 -1/0");
}

TEST_CASE("the innermost launcher's variables count") {
  CHECK(found(slurm + open_mpi) == "mpirun 3/4 7/12");
  CHECK(found(slurm + open_mpi + torch) == "torchrun 1/2 5/8");
  // Hydra's daemons are the step's tasks.
  const Set hydra{{"MPI_LOCALRANKID", "7"}, {"MPI_LOCALNRANKS", "8"}, {"PMI_RANK", "15"}, {"PMI_SIZE", "16"}};
  CHECK(found(slurm + hydra) == "mpiexec 7/8 15/16");
  // The plugin's variables of an outer task
  CHECK(found(open_mpi +
              Set{{"MUSTER_SET", "RANK,LOCAL_RANK"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}}) ==
        "mpirun 3/4 7/12");
}

TEST_CASE("a local rank on the command line replaces the launcher's") {
  CHECK(found({}, {2, 4}) == " 2/4 -1/0");
  CHECK(found({{"PMIX_NAMESPACE", "x"}}, {2, 4}) == " 2/4 -1/0");
  CHECK(found(slurm, {5, 9}) == " 5/9 -1/0");  // a script's own processes in a task
  CHECK(found(open_mpi, {0, std::nullopt}) == "mpirun 0/4 7/12");
  CHECK(found({{"LOCAL_RANK", "1"}}, {std::nullopt, 2}) == "LOCAL_RANK 1/2 -1/0");
  CHECK_THAT(error({}, {1, std::nullopt}), ContainsSubstring("local rank 1 of 1"));
}

TEST_CASE("variables that are missing or contradict each other are one error line") {
  const auto expect = [](const Set& set, const std::string& text) {
    CHECK_THAT(error(set),
               ContainsSubstring(text) && ContainsSubstring("; give --local-rank R --local-size N"));
  };
  expect({{"LOCAL_RANK", "1"}}, "LOCAL_RANK is set without LOCAL_WORLD_SIZE");
  expect({{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}},
         "OMPI_COMM_WORLD_LOCAL_SIZE is set without OMPI_COMM_WORLD_LOCAL_RANK");
  expect({{"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}}, "local rank 2 of 2");
  expect({{"LOCAL_RANK", "x"}, {"LOCAL_WORLD_SIZE", "2"}}, "LOCAL_RANK='x' is not a number");
  expect({{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "-2"}},
         "LOCAL_WORLD_SIZE='-2' is not a number from 1 on");
  expect(open_mpi + Set{{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "4"}},
         "but mpirun made this process 3 of 4");
  expect(open_mpi + Set{{"OMPI_COMM_WORLD_SIZE", "3"}}, "but the job has 3");
  expect({{"RANK", "1"}, {"WORLD_SIZE", "4"}}, "RANK and WORLD_SIZE started 4 processes");
  expect({{"PMIX_NAMESPACE", "x"}}, "PMIX_NAMESPACE is set");
  expect(slurm + Set{{"SLURM_NODEID", "3"}}, "does not count the tasks of node 3");
  expect(slurm + Set{{"SLURM_STEP_TASKS_PER_NODE", "x"}}, "SLURM_STEP_TASKS_PER_NODE='x'");
}
