// SPDX-License-Identifier: Apache-2.0
// Real machines: the facts of the README next to the files, and the plan for each.
#include <cstdlib>
#include <set>

#include "catch.hpp"
#include "placement/topology/read.hpp"
#include "spank/placement/machines.hpp"
#include "temporary_folder.hpp"

using muster::CpuSet;
using namespace muster::placement;
using namespace muster::placement::test;

namespace {

struct Expected {
  const char* file;
  std::vector<int> gpu_domains;       // in PCI order
  std::vector<std::string> nics;      // usable, "name→domain"
  std::vector<std::string> left_out;  // names
};

std::vector<Expected> expectations() {
  const std::vector<int> halves = {0, 0, 0, 0, 1, 1, 1, 1};
  std::vector<int> dgx2(16, 0);
  std::fill(dgx2.begin() + 8, dgx2.end(), 1);
  return {
      {"hwloc/lenovo-sd665nv3-4xh200-nvml.xml",
       {1, 2, 6, 7},
       {"mlx5_4→6", "mlx5_5→7"},
       {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"}},
      {"hwloc/lenovo-sd665nv3-4xh200-nonvml.xml",
       {1, 2, 6, 7},
       {"mlx5_4→6", "mlx5_5→7"},
       {"mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"}},
      {"hwloc/nvidia-dgx2h.xml", dgx2, {}, {}},
      {"hwloc/summit-ac922-6xv100.xml",
       {0, 0, 0, 8, 8, 8},
       {"mlx5_0→0", "mlx5_1→0", "mlx5_2→8", "mlx5_3→8"},
       {}},
      {"hwloc/azure-hbv4-cpuonly-mana-ib.xml", {}, {"mlx5_ib0→0"}, {"mlx5_an0"}},
      {"hwloc/pascal-2xp100.xml", {0, 0}, {"mlx5_0→0"}, {}},
      {"hwloc/aws-g4dn-metal-8xt4.xml", halves, {"rdmap197s0→1"}, {}},
      {"nccl/aws-p4d-24xl-topo.xml",
       halves,
       {"0000:10:1b.0→0", "0000:20:1b.0→0", "0000:90:1b.0→1", "0000:a0:1b.0→1"},
       {}},
      {"nccl/azure-ndv4-topo.xml",
       {1, 1, 0, 0, 3, 3, 2, 2},
       {"0101:00:00.0→1", "0102:00:00.0→1", "0103:00:00.0→0", "0104:00:00.0→0", "0105:00:00.0→3",
        "0106:00:00.0→3", "0107:00:00.0→2", "0108:00:00.0→2"},
       {}},
      {"nccl/azure-ndv5-topo.xml",
       halves,
       {"0101:00:00.0→0", "0102:00:00.0→0", "0103:00:00.0→0", "0104:00:00.0→0", "0105:00:00.0→1",
        "0106:00:00.0→1", "0107:00:00.0→1", "0108:00:00.0→1"},
       {}},
      {"nccl/azure-ncv4-topo.xml", {0, 1, 2, 3}, {}, {"eth0"}},
      {"nccl/oci-bm-gpu-h100-8-topo.xml",
       halves,
       {"mlx5_0→0", "mlx5_1→0", "mlx5_3→0", "mlx5_4→0", "mlx5_5→0", "mlx5_6→0", "mlx5_7→0", "mlx5_8→0",
        "mlx5_9→1", "mlx5_10→1", "mlx5_12→1", "mlx5_13→1", "mlx5_14→1", "mlx5_15→1", "mlx5_16→1",
        "mlx5_17→1"},
       {}},
      {"nccl/perlmutter-4xa100-cxi-topo.xml", {3, 2, 1, 0}, {"cxi3→3", "cxi2→2", "cxi1→1", "cxi0→0"}, {}},
      {"nccl/hgx-h200-8-topo.xml", halves, {}, {"eth0"}},
  };
}

Placement one_task_per_gpu(const Node& node, int cpus_per_task = 0) {
  Request request;
  request.gpus = addresses(node);
  request.tasks = std::max<int>(1, static_cast<int>(node.gpus.size()));
  request.cpus_per_task = cpus_per_task;
  return place(node, request);
}

}  // namespace

TEST_CASE("Real topology files are read as documented") {
  const auto folder = real_topologies();
  if (!folder) return;
  for (const auto& expected : expectations()) {
    INFO(expected.file);
    const Node node = read_topology_file((*folder / expected.file).string());
    std::vector<int> domains;
    for (const auto& gpu : node.gpus) domains.push_back(gpu.domain);
    CHECK(domains == expected.gpu_domains);
    std::vector<std::string> usable, left_out;
    for (const auto& nic : node.nics) {
      if (nic.usable) usable.push_back(nic.label() + "→" + std::to_string(nic.domain));
      if (!nic.usable) left_out.push_back(nic.label());
      CHECK_FALSE(nic.reason.empty());
    }
    CHECK(std::multiset<std::string>(usable.begin(), usable.end()) ==
          std::multiset<std::string>(expected.nics.begin(), expected.nics.end()));
    CHECK(std::set<std::string>(left_out.begin(), left_out.end()) ==
          std::set<std::string>(expected.left_out.begin(), expected.left_out.end()));
  }
}

TEST_CASE("On real machines, with one CPU per task all cores and memory are local") {
  const auto folder = real_topologies();
  if (!folder) return;
  for (const auto& expected : expectations()) {
    INFO(expected.file);
    const Node node = read_topology_file((*folder / expected.file).string());
    const auto placement = one_task_per_gpu(node, 1);
    CpuSet used;
    for (const auto& task : placement.tasks) {
      if (task.gpus.empty()) continue;
      CHECK(task.gpu_cpu == Distance::node);
      CHECK(task.memory == std::vector<int>{task.gpus[0].domain});
      if (node.cores.size() >= placement.tasks.size()) CHECK_FALSE(used.intersects(task.cpus));
      used |= task.cpus;
    }
  }
}

TEST_CASE("On real machines, without a requested size every task has the same number of cores, all local") {
  const auto folder = real_topologies();
  if (!folder) return;
  for (const auto& expected : expectations()) {
    INFO(expected.file);
    const Node node = read_topology_file((*folder / expected.file).string());
    const auto placement = one_task_per_gpu(node);
    for (const auto& task : placement.tasks) {
      if (!task.gpus.empty()) CHECK(task.gpu_cpu == Distance::node);
      CHECK(task.cores == placement.tasks.front().cores);
    }
    if (std::string(expected.file).find("lenovo") != std::string::npos) CHECK(placement.tasks[0].cores == 16);
  }
}

TEST_CASE("On real machines, a GPU and a NIC under one switch are assigned to the same task") {
  const auto folder = real_topologies();
  if (!folder) return;
  const auto names = [&](const char* file) {
    std::vector<std::string> list;
    for (const auto& task : one_task_per_gpu(read_topology_file((*folder / file).string())).tasks) {
      std::string nics = std::string(to_string(task.gpu_nic));
      for (const auto& nic : task.nics) nics += " " + nic.label;
      list.push_back(nics);
    }
    return list;
  };
  CHECK(names("nccl/azure-ndv4-topo.xml") ==
        std::vector<std::string>{"PIX 0101:00:00.0", "PIX 0102:00:00.0", "PIX 0103:00:00.0",
                                 "PIX 0104:00:00.0", "PIX 0105:00:00.0", "PIX 0106:00:00.0",
                                 "PIX 0107:00:00.0", "PIX 0108:00:00.0"});
  CHECK(names("nccl/perlmutter-4xa100-cxi-topo.xml") ==
        std::vector<std::string>{"PHB cxi3", "PHB cxi2", "PHB cxi1", "PHB cxi0"});
  CHECK(names("nccl/oci-bm-gpu-h100-8-topo.xml")[4] == "PXB mlx5_9 mlx5_10");
  CHECK(names("hwloc/pascal-2xp100.xml") == std::vector<std::string>{"PIX mlx5_0", "PIX mlx5_0"});
  CHECK(names("hwloc/lenovo-sd665nv3-4xh200-nvml.xml") ==
        std::vector<std::string>{"SYS mlx5_4", "SYS mlx5_5", "PXB mlx5_4", "PXB mlx5_5"});
  CHECK(names("hwloc/summit-ac922-6xv100.xml") == std::vector<std::string>{"NODE mlx5_0", "NODE mlx5_1",
                                                                           "NODE mlx5_0", "NODE mlx5_2",
                                                                           "NODE mlx5_3", "NODE mlx5_2"});
}

TEST_CASE("The same machine exported with and without NVML devices gives the same plan") {
  const auto folder = real_topologies();
  if (!folder) return;
  const auto with =
      one_task_per_gpu(read_hwloc_xml((*folder / "hwloc/lenovo-sd665nv3-4xh200-nvml.xml").string()));
  const auto without =
      one_task_per_gpu(read_hwloc_xml((*folder / "hwloc/lenovo-sd665nv3-4xh200-nonvml.xml").string()));
  REQUIRE(with.tasks.size() == without.tasks.size());
  for (std::size_t i = 0; i < with.tasks.size(); ++i) {
    CHECK(with.tasks[i].gpus[0].pci == without.tasks[i].gpus[0].pci);
    CHECK(with.tasks[i].gpus[0].uuid.starts_with("GPU-"));
    CHECK(with.tasks[i].cpus == without.tasks[i].cpus);
    CHECK(with.tasks[i].reasons == without.tasks[i].reasons);
  }
}

TEST_CASE("With more GPUs than cores, every task gets one CPU of the right package") {
  const auto folder = real_topologies();
  if (!folder) return;
  const auto placement = one_task_per_gpu(read_hwloc_xml((*folder / "hwloc/nvidia-dgx2h.xml").string()));
  REQUIRE(placement.tasks.size() == 16);
  for (const auto& task : placement.tasks) {
    CHECK(task.cpus.size() == 1);
    CHECK(task.gpu_cpu == Distance::node);
  }
  CHECK(placement.warnings.size() == 1);
}

TEST_CASE(
    "On POWER9 with GPU memory as NUMA domains (a copy of its sysfs), cores and memory are the processors'") {
  const auto folder = real_topologies();
  if (!folder) return;
  const TemporaryFolder unpacked;
  const std::string command = "tar -xjf '" + (*folder / "hwloc/power9-ac922-gpunuma-sysfs.tar.bz2").string() +
                              "' -C '" + unpacked.path().string() + "'";
  if (std::system(command.c_str()) != 0) {
    WARN("SKIPPED: tar with bzip2 is missing");
    return;
  }
  const Node node = read_live((unpacked.path() / "nvidiagpunumanodes").string());
  CHECK(node.cores.size() == 8);
  CHECK(node.cpus().to_list() == "0-15,88-103");
  REQUIRE(node.domains.size() == 8);
  int gpu_memory = 0;
  for (const auto& domain : node.domains) {
    gpu_memory += domain.gpu_memory ? 1 : 0;
    CHECK(domain.gpu_memory == domain.cpus.empty());
  }
  CHECK(gpu_memory == 6);
  CHECK(node.domain_distance(0, 8) == 40);
  CHECK(node.domain_distance(255, 0) == 80);
  const auto placement = one_task_per_gpu(node);
  std::vector<int> memory;
  for (const auto& task : placement.tasks) {
    REQUIRE(task.memory.size() == 1);
    memory.push_back(task.memory[0]);
    CHECK(task.gpu_cpu == Distance::node);
  }
  CHECK(memory == std::vector<int>{0, 0, 0, 8, 8, 8});
}
