// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <map>

#include "catch.hpp"
#include "launcher/hostfile_check.hpp"
#include "launcher/launch_environment.hpp"
#include "rendezvous/missing_ranks.hpp"
#include "silent_file.hpp"
#include "temporary_folder.hpp"
#include "variables.hpp"

using namespace muster;
using namespace muster::bootstrap;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

using Names = std::vector<std::string>;
using Ports = std::vector<std::uint16_t>;
using Set = std::map<std::string, std::string>;

Set task(int rank) {
  return {{"SLURM_CLUSTER_NAME", "c"},
          {"SLURM_JOB_ID", "5"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NUM_TASKS", "5"},
          {"SLURM_PROCID", std::to_string(rank)},
          {"SLURM_LOCALID", "0"},
          {"SLURM_STEP_NODELIST", "n[0-1]"},
          {"SLURM_STEP_TASKS_PER_NODE", "3,2"}};
}

}  // namespace

TEST_CASE("when ports are derived, they are outside the ephemeral range and differ between two jobs") {
  CHECK(parse_port_list("12000-12002,12010") == Ports{12000, 12001, 12002, 12010});
  for (const char* bad : {"", "0", "70000", "12000-", "x", "1-2-3"}) CHECK(parse_port_list(bad).empty());
  auto const ports = derive_ports("slurm/c/5.0/", "");
  REQUIRE(ports.size() >= 30);
  for (auto const port : ports) CHECK((port >= 10000 && port < 30000));
  CHECK(ports == derive_ports("slurm/c/5.0/", ""));
  CHECK(ports != derive_ports("slurm/c/5.1/", ""));
}

TEST_CASE("ports with the plugin's seed do not follow from the job alone") {
  auto const ports = derive_ports("slurm/c/5.0/", "0f");
  REQUIRE(ports.size() >= 7);
  CHECK(ports == derive_ports("slurm/c/5.0/", "0f"));
  CHECK(ports != derive_ports("slurm/c/5.0/", "1f"));
  auto with_seed = task(3);
  with_seed["SLURM_MUSTER_PORT_SEED"] = "0f";
  auto const step = read_slurm_step(variables(with_seed));
  REQUIRE(step);
  CHECK(step->port_seed == "0f");
}

TEST_CASE("when a step's variables are set, they give its ranks, hosts and rank 0's host") {
  auto step = read_slurm_step(variables(task(3)));
  REQUIRE(step);
  CHECK((step->rank == 3 && step->size == 5 && step->hosts == Names{"n0", "n1"}));
  CHECK(step->host_of == Names{"n0", "n0", "n0", "n1", "n1"});
  CHECK(step->job == "slurm/c/5.0/");
  auto set = task(0);
  set["SLURM_DISTRIBUTION"] = "cyclic";
  CHECK(read_slurm_step(variables(set))->host_of == Names{"n0", "n1", "n0", "n1", "n0"});
  set["SLURM_DISTRIBUTION"] = "arbitrary";
  CHECK(read_slurm_step(variables(set))->host_of == Names(5));
  // srun a : b. The hosts are sorted by name, rank 0 is the first component's.
  set = task(0);
  CHECK(read_slurm_step(variables(set))->rank0_host == "n0");
  set["SLURM_JOB_NODELIST_HET_GROUP_0"] = "m7";  // not part of the step
  set["SLURM_JOB_NODELIST_HET_GROUP_1"] = "n1";
  set["SLURM_JOB_NODELIST_HET_GROUP_2"] = "n0";
  CHECK(read_slurm_step(variables(set))->rank0_host == "n1");
  set = task(0);
  set["SLURM_JOB_NODELIST_PACK_GROUP_0"] = "n1";  // Slurm 22.05
  CHECK(read_slurm_step(variables(set))->rank0_host == "n1");
  set["SLURM_STEP_NUM_TASKS"] = "1";
  CHECK_FALSE(read_slurm_step(variables(set)));
  set = task(7);  // beyond the size
  CHECK_THROWS_AS(read_slurm_step(variables(set)), Error);
  set = task(0);
  set.erase("SLURM_STEP_NODELIST");
  CHECK_THROWS_AS(read_slurm_step(variables(set)), Error);
  set.erase("SLURM_STEP_ID");  // a batch script
  CHECK_FALSE(read_slurm_step(variables(set)));
}

TEST_CASE("when all four of torchrun's variables are set, they count, and the port is not the framework's") {
  Set set{{"RANK", "2"},
          {"WORLD_SIZE", "4"},
          {"MASTER_ADDR", "h"},
          {"MASTER_PORT", "29500"},
          {"LOCAL_RANK", "1"}};
  auto const named = read_env_rendezvous(variables(set));
  REQUIRE(named);
  CHECK((named->rank == 2 && named->size == 4 && named->local_rank == 1 && named->port == 29501));
  set["MUSTER_PORT"] = "4000";
  CHECK(read_env_rendezvous(variables(set))->port == 4000);
  for (const auto& [name, value] :
       Set{{"RANK", "4"}, {"RANK", "x"}, {"MASTER_PORT", "0"}, {"WORLD_SIZE", "-1"}}) {
    auto bad = set;
    bad[name] = value;
    CHECK_THROWS_AS(read_env_rendezvous(variables(bad)), Error);
  }
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    auto partial = set;
    partial.erase(name);
    CHECK_FALSE(read_env_rendezvous(variables(partial)));
  }
}

TEST_CASE("a pod finds its job in the variables of Kubernetes' kinds, and torchrun's count first") {
  Set const lws{{"LWS_WORKER_INDEX", "2"}, {"LWS_GROUP_SIZE", "4"}, {"LWS_LEADER_ADDRESS", "l"}};
  Set const trainer{
      {"PET_NODE_RANK", "2"}, {"PET_NNODES", "4"}, {"PET_MASTER_ADDR", "l"}, {"PET_MASTER_PORT", "29400"}};
  Set const indexed{{"JOB_COMPLETION_INDEX", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "l"}};
  Set const volcano{{"VC_TASK_INDEX", "2"}, {"VC_GPU_RANKS_NUM", "4"}, {"VC_GPU_RANKS_HOSTS", "l,m,n,o"}};
  for (const auto& [set, port] :
       {std::pair(lws, 29501), {trainer, 29401}, {indexed, 29501}, {volcano, 29501}}) {
    auto const found = read_env_rendezvous(variables(set));
    REQUIRE(found);
    CHECK((found->rank == 2 && found->size == 4 && found->host == "l" && found->port == port));
    CHECK(detect_launcher(variables(set))->tasks == 4);
    Set torchrun{{"RANK", "9"}, {"WORLD_SIZE", "16"}, {"MASTER_ADDR", "l"}, {"MASTER_PORT", "1"}};
    torchrun.insert(set.begin(), set.end());
    CHECK(read_env_rendezvous(variables(torchrun))->rank == 9);
  }
  CHECK(read_env_rendezvous(variables(lws))->variables ==
        "LWS_WORKER_INDEX=2, LWS_GROUP_SIZE=4 and LWS_LEADER_ADDRESS=l");
}

TEST_CASE("a pod whose variables are incomplete or wrong gets a line that names them") {
  Set trainer{{"PET_NODE_RANK", "2"}, {"PET_NNODES", "4"}, {"PET_MASTER_ADDR", "l"}};
  trainer["PET_NPROC_PER_NODE"] = "1";
  CHECK(read_env_rendezvous(variables(trainer)));
  trainer["PET_NPROC_PER_NODE"] = "8";
  CHECK_THROWS_WITH(read_env_rendezvous(variables(trainer)), ContainsSubstring("PET_NPROC_PER_NODE=8"));
  trainer["PET_NNODES"] = "2:4";
  CHECK_THROWS_WITH(read_env_rendezvous(variables(trainer)), ContainsSubstring("PET_NNODES='2:4'"));
  Set const without_address{{"JOB_COMPLETION_INDEX", "0"}, {"WORLD_SIZE", "4"}};
  CHECK_FALSE(read_env_rendezvous(variables(without_address)));
  CHECK_THAT(check_singleton_allowed(variables(without_address))->what(),
             ContainsSubstring("set MASTER_ADDR"));
  CHECK_FALSE(check_singleton_allowed(variables({{"JOB_COMPLETION_INDEX", "3"}})));
}

TEST_CASE("a pod of Volcano joins the pods of its task, and Jobs whose pods have no order get a line") {
  Set task{{"VC_TASK_INDEX", "1"}, {"VC_RANKS_NUM", "2"}, {"VC_RANKS_HOSTS", "j-ranks-0.j,j-ranks-1.j"}};
  CHECK(read_env_rendezvous(variables(task))->variables ==
        "VC_TASK_INDEX=1, VC_RANKS_NUM=2 and VC_RANKS_HOSTS=j-ranks-0.j");
  auto const with = [&](const Set& changes) {
    auto set = changes;
    set.insert(task.begin(), task.end());
    return variables(set);
  };
  CHECK_THROWS_WITH(read_env_rendezvous(with({{"VC_RANKS_NUM", "x"}})),
                    ContainsSubstring("VC_RANKS_NUM='x'"));
  CHECK_THROWS_WITH(read_env_rendezvous(with({{"VC_TASK_INDEX", "-"}})),
                    ContainsSubstring("VC_TASK_INDEX='-'"));
  // a host name that the manifest sets for all pods
  CHECK_THROWS_WITH(read_env_rendezvous(with({{"VC_RANKS_NUM", "1"}, {"VC_RANKS_HOSTS", "h.j"}})),
                    ContainsSubstring("VC_TASK_INDEX=1, but VC_RANKS_NUM=1: leave out hostname"));
  CHECK_FALSE(read_env_rendezvous(
      with({{"VC_TASK_INDEX", "0"}, {"VC_RANKS_NUM", "1"}, {"VC_RANKS_HOSTS", "j-ranks-0.j"}})));
  auto const two_tasks = with({{"VC_WORKER_NUM", "3"}, {"VC_WORKER_HOSTS", "a,b,c"}});
  CHECK_THROWS_WITH(read_env_rendezvous(two_tasks),
                    ContainsSubstring("has 2 tasks (VC_RANKS_HOSTS, VC_WORKER_HOSTS)"));
  CHECK_FALSE(detect_launcher(two_tasks));
  CHECK(read_env_rendezvous(with({{"VC_WORKER_NUM", "3"},
                                  {"VC_WORKER_HOSTS", "a,b,c"},
                                  {"RANK", "3"},
                                  {"WORLD_SIZE", "4"},
                                  {"MASTER_ADDR", "j-ranks-0.j"},
                                  {"MASTER_PORT", "23456"}}))
            ->rank == 3);
  // Without the plugin svc the pods do not know each other.
  CHECK_FALSE(read_env_rendezvous(variables({{"VC_TASK_INDEX", "1"}})));
}

TEST_CASE("a hostfile that Open MPI 5 did not read is an error") {
  TemporaryFolder const folder;
  auto const file = folder.write("hostfile", "# two pods\npod-0.svc slots=2\npod-1.svc slots=2\n\n");
  // 8 cores of the launcher's node, which the file does not name.
  Set const ignored{{"OMPI_MCA_orte_default_hostfile", file},
                    {"OMPI_UNIVERSE_SIZE", "8"},
                    {"OMPI_COMM_WORLD_SIZE", "8"},
                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "8"},
                    {"OMPI_COMM_WORLD_RANK", "0"},
                    {"OMPI_VERSION", "5.0.11"},
                    {"PRTE_LAUNCHED", "1"}};
  auto const with = [&](const Set& changes) {
    auto set = ignored;
    for (auto const& [name, value] : changes) set[name] = value;
    return variables(set);
  };
  auto const refusal = check_hostfile_was_read(with({}), "launcher");
  REQUIRE(refusal);
  CHECK_THAT(refusal->what(),
             ContainsSubstring("all 8 ranks run on host launcher, which has 0 of the 4 slots"));
  CHECK(check_hostfile_was_read(with({}), "pod-0"));
  Set const two_ranks{{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  auto const with_universe = [&](Set set, const char* universe) {
    set["OMPI_UNIVERSE_SIZE"] = universe;
    return with(set);
  };
  CHECK(check_hostfile_was_read(with_universe(two_ranks, "2"), "pod-0"));
  CHECK_FALSE(check_hostfile_was_read(with_universe(two_ranks, "4"), "pod-0"));  // mpirun -n 2
  CHECK_FALSE(check_hostfile_was_read(with({{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}), "pod-0"));
  CHECK_FALSE(check_hostfile_was_read(with({{"PRTE_LAUNCHED", ""}}), "launcher"));
  CHECK_FALSE(
      check_hostfile_was_read(with({{"OMPI_MCA_orte_default_hostfile", "/nonexistent"}}), "launcher"));
}

TEST_CASE("when two launchers report different ranks, it is an error, unless Muster's plugin set one") {
  Set set{{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "4"}};
  CHECK_FALSE(check_rank_consistency(variables({}), 1, 4));
  CHECK_FALSE(check_rank_consistency(variables(set), 1, 4));
  CHECK(check_rank_consistency(variables(set), 2, 4));
  CHECK(check_rank_consistency(variables(set), 1, 8));
  set["MUSTER_SET"] = "OMP_NUM_THREADS,RANK,WORLD_SIZE";  // of the step that runs mpirun's daemons
  CHECK_FALSE(check_rank_consistency(variables(set), 5, 8));
  set["RANK"] = "3";  // changed since
  CHECK(check_rank_consistency(variables(set), 1, 4));
}

TEST_CASE("when ranks are missing, the text describes how far each got") {
  JoinProgress progress;
  progress.size = 7;
  progress.present = {0, 1};
  progress.connected = {4, 5};
  progress.host_of = {"a", "a", "a", "a", "b", "c", "c"};
  progress.processes_by_host["a"] = {{0, {1, "x"}}, {1, {2, "x"}}, {2, {31, "python3"}}};
  CHECK(describe_missing_ranks(progress, 60s) ==
        "join: 5 of 7 ranks missing after 60 s: rank 2 (host a) started (pid 31, python3) but sent no hello; "
        "rank 3 (host a) has no process there: it never started, or ended; "
        "rank 4 (host b) connected but sent no hello; rank 5 (host c) connected but sent no hello; "
        "rank 6 (host c) sent no hello, nor did any other rank of that host");
  progress.tasks_start_together = true;  // by slurmstepd
  CHECK(describe_missing_ranks(progress, 60s)
            .find("rank 3 (host a) has no process there any more: it ended without a "
                  "hello") != std::string::npos);
  progress.size = 100;
  CHECK(describe_missing_ranks(progress, 60s).find("98 of 100") != std::string::npos);
  CHECK(describe_missing_ranks(progress, 60s).find("; and 90 more") != std::string::npos);
  // When only the ranks that joined have known hosts.
  progress.size = 4;
  progress.host_of.clear();
  progress.processes_by_host["b"] = {};
  auto const nowhere = "rank 3 has no process on a, b: it never started, ended, or is on another host";
  CHECK(describe_missing_ranks(progress, 60s).find(nowhere) != std::string::npos);
  // Anybody can claim to be a rank: what is known about it stays true.
  progress.unauthenticated = {3};
  CHECK(
      describe_missing_ranks(progress, 60s)
          .find(nowhere +
                std::string("; a connection that claimed to be it was refused because it did not prove that "
                            "it has this job's key: if it was that rank's, give")) != std::string::npos);
  progress.unauthenticated.clear();
  progress.processes_by_host["b"] = {{unreadable, {77, "y"}}};
  CHECK(describe_missing_ranks(progress, 60s).find("rank 3 (host unknown) sent no hello") !=
        std::string::npos);
}

TEST_CASE("when a rank of the job has a process on this host, it is found") {
  pid_t const child = fork();
  if (child == 0) {
    setenv("TORCHELASTIC_RUN_ID", "muster-test", 1);
    setenv("MASTER_ADDR", "h", 1);
    setenv("MASTER_PORT", std::to_string(getppid()).c_str(), 1);
    setenv("RANK", "5", 1);
    setenv("SLURM_PROCID", "0", 1);  // of the step in which another launcher started it
    execlp("sleep", "sleep", "20", nullptr);
    _exit(1);
  }
  auto const here = variables({{"TORCHELASTIC_RUN_ID", "muster-test"},
                               {"MASTER_ADDR", "h"},
                               {"MASTER_PORT", std::to_string(getpid())},
                               {"RANK", "0"},
                               {"WORLD_SIZE", "6"}});
  std::map<int, RankProcess> found;
  for (int i = 0; i < 1000 && found.count(5) == 0; ++i) {
    usleep(20'000);  // until the child runs sleep
    found = find_rank_processes(here, "address");
  }
  found.erase(unreadable);  // other processes that a busy machine delays
  REQUIRE(found.size() == 1);
  CHECK(found[5].pid == child);
  CHECK(found[5].name == "sleep");
  CHECK(find_rank_processes(here, "slurm").count(5) == 0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_CASE("when a process cannot be read, the scan does not block, and it counts as any rank's") {
  FolderWithSilentFile const proc("77/environ");
  std::ofstream(proc.root / "77/comm") << "stuck\n";
  std::filesystem::create_directory(proc.root / "78");
  std::ofstream(proc.root / "78/comm") << "runs\n";
  std::ofstream(proc.root / "78/environ") << "PMIX_NAMESPACE=n" << '\0' << "PMIX_RANK=1" << '\0';
  auto const found = find_rank_processes(variables({{"PMIX_NAMESPACE", "n"}}), "pmix", proc.root);
  REQUIRE(found.size() == 2);
  CHECK(found.at(1).name == "runs");
  CHECK(found.at(unreadable).pid == 77);
  CHECK(found.at(unreadable).name == "stuck");

  JoinProgress progress;
  progress.size = 3;
  progress.host_of = {"a", "a", "a"};
  progress.present = {0};
  progress.processes_by_host["a"] = found;
  CHECK(describe_missing_ranks(progress, 60s) ==
        "join: 2 of 3 ranks missing after 60 s: rank 1 (host a) started (pid 78, runs) but sent no hello; "
        "rank 2 (host a) sent no hello; pid 77 (stuck) there, which may be its own, cannot be read now");
}
