// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include "catch.hpp"
#include "machines.hpp"
#include "placement/environment.hpp"

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
  job.master_port = 12345;
  job.socket_interface = "eth0";
  return job;
}

}  // namespace

TEST_CASE("The whole environment of a task") {
  const auto map = values(derive_environment(two_tasks().tasks[1], facts()));
  const std::map<std::string, std::string> expected = {{"CUDA_VISIBLE_DEVICES", "GPU-128"},
                                                       {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                                                       {"NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1"},
                                                       {"NCCL_SOCKET_IFNAME", "=eth0"},
                                                       {"UCX_NET_DEVICES", "mlx5_1:1"},
                                                       {"GLOO_SOCKET_IFNAME", "eth0"},
                                                       {"OMP_NUM_THREADS", "4"},
                                                       {"RANK", "5"},
                                                       {"WORLD_SIZE", "8"},
                                                       {"LOCAL_RANK", "1"},
                                                       {"LOCAL_WORLD_SIZE", "2"},
                                                       {"MASTER_ADDR", "n1"},
                                                       {"MASTER_PORT", "12345"},
                                                       {"MUSTER_VERSION", map.at("MUSTER_VERSION")},
                                                       {"MUSTER_GPUS", "0000:80:00.0"},
                                                       {"MUSTER_CPUS", "4-7"},
                                                       {"MUSTER_MEMORY", "1"},
                                                       {"MUSTER_NICS", "mlx5_1:1"}};
  CHECK(map == expected);
  CHECK_FALSE(map.at("MUSTER_VERSION").empty());
}

TEST_CASE("NCCL's list is the same for all ranks of a node, UCX's is each rank's own") {
  const auto placement = two_tasks();
  const auto first = values(derive_environment(placement.tasks[0], facts()));
  const auto second = values(derive_environment(placement.tasks[1], facts()));
  CHECK(first.at("NCCL_IB_HCA") == second.at("NCCL_IB_HCA"));
  CHECK(first.at("UCX_NET_DEVICES") != second.at("UCX_NET_DEVICES"));
}

TEST_CASE("No RDMA list where there is no usable port, or one that verbs cannot use") {
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
  job.visible_gpus = {PciAddress{0, 0x80, 0, 0}};  // isolated: only its own
  CHECK(values(derive_environment(task, job)).at("CUDA_VISIBLE_DEVICES") == "0");
  job.visible_gpus.clear();
  CHECK(values(derive_environment(task, job)).at("CUDA_VISIBLE_DEVICES") == "0");
  job.visible_gpus = {PciAddress{0, 0x10, 0, 0}};  // its own GPU cannot be opened: no wrong index
  CHECK_FALSE(values(derive_environment(task, job)).contains("CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("What is not known is not set") {
  TaskPlacement task = two_tasks(false).tasks[0];
  task.gpus.clear();
  const auto map = values(derive_environment(task, JobFacts{}));
  for (const char* name :
       {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME",
        "UCX_NET_DEVICES", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}) {
    CHECK_FALSE(map.contains(name));
  }
}

TEST_CASE("A variable that is set is kept, and both lists say what happened") {
  std::map<std::string, std::string> existing = {
      {"RANK", "3"}, {"NCCL_IB_HCA", ""}, {"CUDA_VISIBLE_DEVICES", "0,1"}};
  const Lookup lookup = [&](const std::string& name) -> std::optional<std::string> {
    const auto at = existing.find(name);
    return at == existing.end() ? std::nullopt : std::optional(at->second);
  };
  const auto derived = derive_environment(two_tasks().tasks[0], facts());
  auto change = decide_environment(derived, lookup, {"CUDA_VISIBLE_DEVICES"});
  auto set = values(change.set);
  CHECK_FALSE(set.contains("RANK"));
  CHECK_FALSE(set.contains("NCCL_IB_HCA"));
  CHECK(set.at("CUDA_VISIBLE_DEVICES") == "GPU-16");
  CHECK(set.at("MUSTER_KEPT") == "NCCL_IB_HCA,RANK");
  CHECK(set.at("MUSTER_SET") ==
        "CUDA_VISIBLE_DEVICES,CUDA_DEVICE_ORDER,NCCL_SOCKET_IFNAME,UCX_NET_DEVICES,GLOO_SOCKET_IFNAME,OMP_"
        "NUM_THREADS,"
        "WORLD_SIZE,LOCAL_RANK,LOCAL_WORLD_SIZE,MASTER_ADDR,MASTER_PORT");
  REQUIRE(change.kept.size() == 2);
  CHECK(change.kept[1].value == "3");
  CHECK(change.set.back().name == "MUSTER_KEPT");

  // Without the hint Slurm's value counts as the user's.
  CHECK_FALSE(values(decide_environment(derived, lookup).set).contains("CUDA_VISIBLE_DEVICES"));

  // Inside a step of ours: what that step set is ours to replace, what the user set is not.
  existing = {{"MUSTER_SET", "RANK,OMP_NUM_THREADS"},
              {"RANK", "0"},
              {"OMP_NUM_THREADS", "64"},
              {"MUSTER_CPUS", "0"},
              {"WORLD_SIZE", "1"}};
  set = values(decide_environment(derived, lookup).set);
  CHECK(set.at("RANK") == "5");
  CHECK(set.at("OMP_NUM_THREADS") == "4");
  CHECK(set.at("MUSTER_CPUS") == "0-3");
  CHECK(set.at("MUSTER_KEPT") == "WORLD_SIZE");
}

TEST_CASE("Ports lie in their range and spread over jobs and steps") {
  std::set<int> ports;
  for (std::uint32_t job = 1000; job < 1100; ++job) {
    for (std::uint32_t step = 0; step < 10; ++step) {
      const int port = master_port(1000, job, step);
      CHECK(port >= 10000);
      CHECK(port < 30000);
      CHECK(port == master_port(1000, job, step));
      ports.insert(port);
    }
  }
  CHECK(ports.size() == 1000);  // not one shared
  const int extreme = master_port(0xffffffff, 0xffffffff, 0xfffffffa);
  CHECK(extreme >= 10000);
  CHECK(extreme < 30000);
  CHECK(master_port(1000, 7, 0) != master_port(1001, 7, 0));
}
