// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "hash/fnv1a.hpp"
#include "placement/environment/environment.hpp"
#include "spank/placement/machines.hpp"

using namespace muster::placement;
using namespace muster::placement::test;

namespace {

std::map<std::string, std::string> values(const std::vector<Variable>& variables) {
  std::map<std::string, std::string> map;
  for (const auto& variable : variables) {
    CHECK_FALSE(variable.reason.empty());
    CHECK(map.emplace(variable.name, variable.value).second);
  }
  return map;
}

/// Two domains with a GPU and an InfiniBand port each.
Placement two_tasks(bool with_nics = true, NicKind kind = NicKind::infiniband) {
  Node node = make_node({2, 1, 4, 1});
  add_gpu(node, 0, 0x10);
  add_gpu(node, 1, 0x80);
  if (with_nics) {
    add_nic(node, "mlx5_0", 0, 0x20, 0x10, kind);
    add_nic(node, "mlx5_1", 1, 0x90, 0x80, kind);
  }
  Request request;
  request.tasks = 2;
  request.gpus = addresses(node);
  return place(node, request);
}

JobFacts facts() {
  JobFacts job;
  job.rank = 5;
  job.world_size = 8;
  job.local_rank = 1;
  job.local_world_size = 2;
  job.master_address = "n1";
  job.ports = derive_ports(7, 0);
  job.socket_interface = "eth0";
  job.fence = "ring";
  job.mpi_interface = "eth0";
  return job;
}

}  // namespace

TEST_CASE("A task gets all derived variables") {
  const auto map = values(derive_environment(two_tasks().tasks[1], facts()));
  const std::map<std::string, std::string> expected = {{"CUDA_VISIBLE_DEVICES", "GPU-128"},
                                                       {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                                                       {"NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1"},
                                                       {"NCCL_SOCKET_IFNAME", "=eth0"},
                                                       {"UCX_NET_DEVICES", "mlx5_1:1"},
                                                       {"GLOO_SOCKET_IFNAME", "eth0"},
                                                       {"OMPI_MCA_btl_tcp_if_include", "eth0"},
                                                       {"OMP_NUM_THREADS", "4"},
                                                       {"SLURM_PMIX_FENCE", "ring"},
                                                       {"RANK", "5"},
                                                       {"WORLD_SIZE", "8"},
                                                       {"LOCAL_RANK", "1"},
                                                       {"LOCAL_WORLD_SIZE", "2"},
                                                       {"MASTER_ADDR", "n1"},
                                                       {"MASTER_PORT", "11120"},
                                                       {"JAX_COORDINATOR_ADDRESS", "n1:11121"},
                                                       {"JAX_LOCAL_DEVICE_IDS", "0"},
                                                       {"MUSTER_VERSION", map.at("MUSTER_VERSION")},
                                                       {"MUSTER_GPUS", "0000:80:00.0"},
                                                       {"MUSTER_CPUS", "4-7"},
                                                       {"MUSTER_MEMORY", "1"},
                                                       {"MUSTER_NICS", "mlx5_1:1"}};
  CHECK(map == expected);
  CHECK_FALSE(map.at("MUSTER_VERSION").empty());
}

TEST_CASE("NCCL's device list is the same for all ranks of a node, UCX's is specific to each rank") {
  const auto placement = two_tasks();
  const auto first = values(derive_environment(placement.tasks[0], facts()));
  const auto second = values(derive_environment(placement.tasks[1], facts()));
  CHECK(first.at("NCCL_IB_HCA") == second.at("NCCL_IB_HCA"));
  CHECK(first.at("UCX_NET_DEVICES") != second.at("UCX_NET_DEVICES"));
}

TEST_CASE("Without a usable port, or with one that verbs cannot use, there is no RDMA list") {
  const auto none = values(derive_environment(two_tasks(false).tasks[0], facts()));
  CHECK_FALSE(none.contains("NCCL_IB_HCA"));
  CHECK(none.at("UCX_NET_DEVICES") == "eth0");
  CHECK(none.at("MUSTER_NICS").empty());
  const auto efa = values(derive_environment(two_tasks(true, NicKind::efa).tasks[0], facts()));
  CHECK_FALSE(efa.contains("NCCL_IB_HCA"));
  CHECK_FALSE(efa.contains("UCX_NET_DEVICES"));
  CHECK(efa.at("MUSTER_NICS") == "mlx5_0:1");
  for (const auto& [name, value] : none) CHECK(name.find("GID") == std::string::npos);
}

TEST_CASE("GPUs without UUID are named by index in PCI order among the visible ones") {
  auto task = two_tasks().tasks[1];
  task.gpus[0].uuid.clear();
  JobFacts job = facts();
  job.visible_gpus = {PciAddress{0, 0x80, 0, 0}, PciAddress{0, 0x10, 0, 0}};
  CHECK(values(derive_environment(task, job)).at("CUDA_VISIBLE_DEVICES") == "1");
  job.visible_gpus = {PciAddress{0, 0x80, 0, 0}};  // isolated: it can open only its own GPU
  CHECK(values(derive_environment(task, job)).at("CUDA_VISIBLE_DEVICES") == "0");
  job.visible_gpus.clear();
  CHECK(values(derive_environment(task, job)).at("CUDA_VISIBLE_DEVICES") == "0");
  job.visible_gpus = {PciAddress{0, 0x10, 0, 0}};  // its own GPU cannot be opened: no wrong index
  CHECK_FALSE(values(derive_environment(task, job)).contains("CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("GPUs are named by index if requested and all are visible, else by UUID") {
  const auto task = two_tasks().tasks[1];
  JobFacts job = facts();
  job.visible_gpus = {PciAddress{0, 0x80, 0, 0}, PciAddress{0, 0x10, 0, 0}};
  CHECK(values(derive_environment(task, job)).at("CUDA_VISIBLE_DEVICES") == task.gpus[0].uuid);
  job.gpus_by_index = true;
  CHECK(values(derive_environment(task, job)).at("CUDA_VISIBLE_DEVICES") == "1");
  job.visible_gpus.pop_back();
  CHECK(values(derive_environment(task, job)).at("CUDA_VISIBLE_DEVICES") == "0");
  job.visible_gpus = {PciAddress{0, 0x10, 0, 0}};
  CHECK(values(derive_environment(task, job)).at("CUDA_VISIBLE_DEVICES") == task.gpus[0].uuid);
}

TEST_CASE("All GPUs of the step are shown in the given order, and JAX takes the task's own") {
  const Placement placement = two_tasks();
  JobFacts job = facts();
  job.shown_gpus = placement.tasks[1].gpus;
  job.shown_gpus->push_back(placement.tasks[0].gpus[0]);
  job.first_own = 1;
  const auto map = values(derive_environment(placement.tasks[0], job));
  CHECK(map.at("CUDA_VISIBLE_DEVICES") ==
        placement.tasks[1].gpus[0].uuid + "," + placement.tasks[0].gpus[0].uuid);
  CHECK(map.at("JAX_LOCAL_DEVICE_IDS") == "1");
  // Empty: the existing variable stays.
  job.shown_gpus->clear();
  CHECK_FALSE(values(derive_environment(placement.tasks[0], job)).contains("CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("Variables without a known value are not set") {
  TaskPlacement task = two_tasks(false).tasks[0];
  task.gpus.clear();
  const auto map = values(derive_environment(task, JobFacts{}));
  for (const char* name :
       {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME",
        "UCX_NET_DEVICES", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}) {
    CHECK_FALSE(map.contains(name));
  }
}

TEST_CASE("Existing variables are kept, and MUSTER_SET and MUSTER_KEPT list the result") {
  std::map<std::string, std::string> existing = {
      {"RANK", "3"}, {"NCCL_IB_HCA", ""}, {"CUDA_VISIBLE_DEVICES", "0,1"}};
  const GetEnv get_env = [&](const std::string& name) -> std::optional<std::string> {
    const auto at = existing.find(name);
    return at == existing.end() ? std::nullopt : std::optional(at->second);
  };
  const auto derived = derive_environment(two_tasks().tasks[0], facts());
  auto change = decide_environment(derived, get_env, {"CUDA_VISIBLE_DEVICES"});
  auto set = values(change.set);
  CHECK_FALSE(set.contains("RANK"));
  CHECK_FALSE(set.contains("NCCL_IB_HCA"));
  CHECK(set.at("CUDA_VISIBLE_DEVICES") == "GPU-16");
  CHECK(set.at("MUSTER_KEPT") == "NCCL_IB_HCA,RANK");
  CHECK(set.at("MUSTER_SET") ==
        "CUDA_VISIBLE_DEVICES,CUDA_DEVICE_ORDER,NCCL_SOCKET_IFNAME,UCX_NET_DEVICES,GLOO_SOCKET_IFNAME,"
        "OMPI_MCA_btl_tcp_if_include,OMP_"
        "NUM_THREADS,SLURM_PMIX_FENCE,"
        "WORLD_SIZE,LOCAL_RANK,LOCAL_WORLD_SIZE,MASTER_ADDR,MASTER_PORT,JAX_COORDINATOR_ADDRESS,JAX_LOCAL_"
        "DEVICE_IDS");
  REQUIRE(change.kept.size() == 2);
  CHECK(change.kept[1].value == "3");
  CHECK(change.set.back().name == "MUSTER_KEPT");

  // Without not_from_user, Slurm's value counts as the user's.
  CHECK_FALSE(values(decide_environment(derived, get_env).set).contains("CUDA_VISIBLE_DEVICES"));

  // In a step inside a step: variables that Muster set for the outer step are replaced, the user's are kept.
  const auto sum = [](const char* value) { return muster::hexadecimal(muster::fnv1a(value)); };
  existing = {{"MUSTER_SET", "RANK,OMP_NUM_THREADS,MASTER_ADDR"},
              {"MUSTER_SET_SUMS", sum("0") + "," + sum("64") + "," + sum("n0")},
              {"RANK", "0"},
              {"OMP_NUM_THREADS", "64"},
              {"MASTER_ADDR", "changed"},
              {"MUSTER_CPUS", "0"},
              {"WORLD_SIZE", "1"}};
  set = values(decide_environment(derived, get_env).set);
  CHECK(set.at("RANK") == "5");
  CHECK(set.at("OMP_NUM_THREADS") == "4");
  CHECK(set.at("MUSTER_CPUS") == "0-3");
  CHECK(set.at("MUSTER_KEPT") == "WORLD_SIZE,MASTER_ADDR");
  // Its own checksums do the same for the next step inside.
  existing = set;
  const std::string& names = set.at("MUSTER_SET");
  CHECK(static_cast<long>(set_by_outer_step(get_env).size()) ==
        1 + std::count(names.begin(), names.end(), ','));
}

TEST_CASE("TF_CONFIG has every rank's host and port, up to the size limit of a variable") {
  JobFacts job = facts();
  job.tensorflow_cluster = tensorflow_cluster({"n1", "n1", "n2"}, {10004, 10005, 10004});
  const auto map = values(derive_environment(two_tasks().tasks[1], job));
  CHECK(nlohmann::json::parse(map.at("TF_CONFIG")) ==
        nlohmann::json::parse(R"({"cluster":{"worker":["n1:10004","n1:10005","n2:10004"]},
                                  "task":{"type":"worker","index":5}})"));
  CHECK(tensorflow_cluster({"n1"}, {}).empty());
  CHECK(tensorflow_cluster({}, {}).empty());
  // The kernel allows 131072 bytes including the name and the null character: 21 characters a rank here.
  const auto of = [](std::size_t ranks) {
    return tensorflow_cluster(std::vector<std::string>(ranks, "gpu-node-0001"),
                              std::vector<int>(ranks, 10004));
  };
  job.rank = 999999;
  const auto task = two_tasks().tasks[1];
  std::size_t most = 0;
  for (std::size_t ranks = 5900; ranks < 6300; ++ranks) {
    job.tensorflow_cluster = of(ranks);
    if (job.tensorflow_cluster.empty()) break;
    most = ranks;
    for (const auto& variable : derive_environment(task, job))
      if (variable.name == "TF_CONFIG") REQUIRE(variable.value.size() + sizeof "TF_CONFIG=" <= 131072);
  }
  CHECK(most == 5953);
  CHECK(of(most + 1).empty());
}

TEST_CASE("JAX gets the indices of all GPUs that CUDA shows the task") {
  const auto task = two_tasks().tasks[1];
  JobFacts job = facts();
  const auto ids = [&] {
    const auto map = values(derive_environment(task, job));
    return map.contains("JAX_LOCAL_DEVICE_IDS") ? map.at("JAX_LOCAL_DEVICE_IDS") : "none";
  };
  CHECK(ids() == "0");
  job.cuda_visible_devices = "2,3,5";  // the user's choice stays, and this must match it
  CHECK(ids() == "0,1,2");
  job.cuda_visible_devices = "";
  CHECK(ids() == "none");
}

TEST_CASE(
    "Precedence: the user's variable and file, then a profile, then /etc/nccl.conf, then Muster's value") {
  const std::vector<Variable> derived = {{"NCCL_IB_HCA", "=mlx5_0:1", "nearest"},
                                         {"NCCL_SOCKET_IFNAME", "=eth0", "route"},
                                         {"OMP_NUM_THREADS", "4", "cores"},
                                         {"MUSTER_CPUS", "0-3", "bound"}};
  const auto get_env_in = [](std::map<std::string, std::string> existing) -> GetEnv {
    return [existing](const std::string& name) -> std::optional<std::string> {
      const auto at = existing.find(name);
      return at == existing.end() ? std::nullopt : std::optional(at->second);
    };
  };
  FileSettings file_settings;
  file_settings.profiles = {{"NCCL_IB_HCA", "=p", "a.conf"},
                            {"NCCL_IB_TC", "106", "a.conf"},
                            {"OMP_NUM_THREADS", std::nullopt, "b.conf"},
                            {"NCCL_DEBUG", "WARN", "b.conf"}};
  file_settings.nccl_conf = {{"NCCL_SOCKET_IFNAME", "eth1", "/etc/nccl.conf"},
                             {"NCCL_IB_TC", "41", "/etc/nccl.conf"},
                             {"NCCL_BUFFSIZE", "1", "/etc/nccl.conf"}};
  file_settings.user_files = {{"NCCL_DEBUG", "INFO", "/home/u/.nccl.conf"}};

  auto change = decide_environment(derived, get_env_in({}), {}, file_settings);
  auto set = values(change.set);
  CHECK(set.at("MUSTER_SET") == "NCCL_IB_HCA,NCCL_IB_TC");
  CHECK(set.at("NCCL_IB_HCA") == "=p");
  CHECK(set.at("NCCL_IB_TC") == "106");
  CHECK(set.at("MUSTER_KEPT") == "NCCL_SOCKET_IFNAME,NCCL_DEBUG");
  REQUIRE(change.kept.size() == 2);
  CHECK(change.kept[0].value == "eth1");
  CHECK(change.kept[0].reason == "set in /etc/nccl.conf");
  CHECK(change.kept[0].origin == Origin::nccl_conf);
  CHECK(change.kept[1].origin == Origin::user_file);
  REQUIRE(change.left_out.size() == 1);
  CHECK(change.left_out[0].name == "OMP_NUM_THREADS");
  CHECK(change.left_out[0].reason == "left alone: b.conf");
  CHECK(change.notes ==
        std::vector<std::string>{"NCCL_IB_TC=106 is set by a.conf, instead of 41 in /etc/nccl.conf"});

  change = decide_environment(derived, get_env_in({{"NCCL_IB_HCA", "mine"}, {"NCCL_IB_TC", ""}}), {},
                              file_settings);
  set = values(change.set);
  CHECK(set.at("MUSTER_SET").empty());
  CHECK(set.at("MUSTER_KEPT") == "NCCL_IB_HCA,NCCL_SOCKET_IFNAME,NCCL_IB_TC,NCCL_DEBUG");
  CHECK(change.kept[0].origin == Origin::user);
  CHECK(change.notes.empty());

  // A variable that an outer step set from a profile is not the user's.
  change = decide_environment(derived,
                              get_env_in({{"MUSTER_SET", "NCCL_IB_TC"},
                                          {"MUSTER_SET_SUMS", muster::hexadecimal(muster::fnv1a("1"))},
                                          {"NCCL_IB_TC", "1"}}),
                              {}, file_settings);
  CHECK(values(change.set).at("NCCL_IB_TC") == "106");
}
