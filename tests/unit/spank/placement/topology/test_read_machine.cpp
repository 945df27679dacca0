// SPDX-License-Identifier: Apache-2.0
// The descriptions of public machines, compared with topology files of the same machines if available.
#include <algorithm>
#include <map>
#include <set>

#include "catch.hpp"
#include "placement/topology/error.hpp"
#include "placement/topology/read.hpp"
#include "placement/topology/read_machine.hpp"
#include "spank/placement/machines.hpp"
#include "spank/placement/properties.hpp"
#include "temporary_folder.hpp"

using muster::CpuSet;
using namespace muster::placement;
using namespace muster::placement::test;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

Request request_all_gpus(const Node& node) {
  Request request;
  request.gpus = addresses(node);
  request.tasks = static_cast<int>(request.gpus.size());
  return request;
}

/// All installed descriptions, so that new files are tested too.
std::vector<std::filesystem::path> descriptions() {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_MACHINES))
    if (entry.path().extension() == ".machine") found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

std::set<int> find_domains(const Node& node, const CpuSet& cpus) {
  std::set<int> found;
  for (const auto& core : node.cores)
    if (core.cpus.intersects(cpus)) found.insert(core.domain);
  return found;
}

Distance nearest_nic(const Node& node, const PciAddress& pci) {
  const auto& gpu = *node.find_gpu(pci);
  Distance nearest = Distance::unknown;
  for (const auto& nic : node.nics)
    nearest = std::min(nearest, device_distance(gpu.path, gpu.domain, nic.path, nic.domain));
  return nearest;
}

Machine machine(const std::string& name) { return read_machine(MUSTER_MACHINES "/" + name + ".machine"); }

}  // namespace

TEST_CASE("On every described machine, each task's cores and memory are near to its GPU") {
  for (const auto& path : descriptions()) {
    INFO(path);
    const auto read = read_machine(path);
    const auto request = request_all_gpus(read.node);
    const auto placement = place(read.node, request);
    check_properties(read.node, request, placement);
    for (const auto& task : placement.tasks) {
      CHECK(task.gpu_cpu == Distance::node);
      CHECK(find_domains(read.node, task.cpus) == std::set<int>{task.gpus.at(0).domain});
      CHECK(task.memory == std::vector<int>{task.gpus.at(0).domain});
    }
    CHECK(placement.warnings.empty());
  }
}

TEST_CASE(
    "Every GPU of a described machine has its nearest NIC, and GPUs share NICs only if there are too few") {
  for (const auto& path : descriptions()) {
    INFO(path);
    const auto read = read_machine(path);
    const auto& node = read.node;
    const auto placement = place(node, request_all_gpus(node));
    if (node.nics.empty()) {
      CHECK_THAT(read.description, ContainsSubstring("no RDMA"));
      continue;
    }
    std::set<std::string> given;
    for (const auto& task : placement.tasks) {
      REQUIRE_FALSE(task.nics.empty());
      CHECK(task.gpu_nic <= Distance::node);
      CHECK(task.nics.at(0).distance == nearest_nic(node, task.gpus.at(0).pci));
      given.insert(task.nics.at(0).label);
    }
    CHECK(given.size() == std::min(node.nics.size(), placement.tasks.size()));
  }
}

TEST_CASE("Devices below one host bridge of a described machine are on one NUMA domain") {
  for (const auto& path : descriptions()) {
    INFO(path);
    const auto node = read_machine(path).node;
    std::map<std::string, std::set<int>> domains;
    for (const auto& gpu : node.gpus) domains[gpu.path.host_bridge].insert(gpu.domain);
    for (const auto& nic : node.nics) domains[nic.path.host_bridge].insert(nic.domain);
    for (const auto& [bridge, numa_domains] : domains) {
      INFO(bridge);
      CHECK(numa_domains.size() == 1);
    }
  }
}

TEST_CASE("On a described machine only cores beyond the GPUs' equal shares are idle") {
  for (const auto& path : descriptions()) {
    INFO(path);
    const auto node = read_machine(path).node;
    std::map<int, int> cores, gpus;
    for (const auto& core : node.cores) ++cores[core.domain];
    for (const auto& gpu : node.gpus) ++gpus[gpu.domain];
    int share = static_cast<int>(node.cores.size());
    for (const auto& [domain, count] : gpus) share = std::min(share, cores.at(domain) / count);
    const auto placement = place(node, request_all_gpus(node));
    for (const auto& task : placement.tasks) CHECK(task.cores == share);
    const auto idle = node.cores.size() - node.gpus.size() * static_cast<std::size_t>(share);
    if (idle == 0)
      CHECK(placement.notes.empty());
    else
      CHECK_THAT(placement.notes.at(0), StartsWith(std::to_string(idle) + " of "));
  }
}

TEST_CASE("Every description has a unique short title and the URLs of its sources") {
  const auto paths = descriptions();
  CHECK(paths.size() >= 16);
  std::set<std::string> seen;
  for (const auto& path : paths) {
    INFO(path);
    const auto read = read_machine(path);
    CHECK(read.description.size() <= 100);
    CHECK(seen.insert(read.description).second);
    for (const auto& source : read.sources) CHECK(source.starts_with("https://"));
  }
}

TEST_CASE("A described machine and its topology file give the same plan") {
  const auto folder = real_topologies();
  if (!folder) return;
  for (const auto& [name, file] :
       std::map<std::string, std::string>{{"azure-ndv4", "nccl/azure-ndv4-topo.xml"},
                                          {"azure-ndv5", "nccl/azure-ndv5-topo.xml"},
                                          {"azure-ncv4", "nccl/azure-ncv4-topo.xml"},
                                          {"aws-p4d", "nccl/aws-p4d-24xl-topo.xml"},
                                          {"oci-h100", "nccl/oci-bm-gpu-h100-8-topo.xml"},
                                          {"perlmutter", "nccl/perlmutter-4xa100-cxi-topo.xml"},
                                          {"lenovo-h200", "hwloc/lenovo-sd665nv3-4xh200-nvml.xml"}}) {
    INFO(name);
    const Node described = machine(name).node;
    Node real = read_topology_file((*folder / file).string());
    if (name == "lenovo-h200") {  // two of its ports were down
      for (auto& nic : real.nics) nic.up = true;
      finish(real);
    }
    CHECK(described.cpus() == real.cpus());
    Request request = request_all_gpus(real);
    request.cpus_per_task = 4;  // NCCL's files do not say which CPUs share a core
    const auto ours = place(described, request);
    const auto theirs = place(real, request);
    REQUIRE(ours.tasks.size() == theirs.tasks.size());
    for (std::size_t i = 0; i < ours.tasks.size(); ++i) {
      CHECK(ours.tasks[i].gpus.at(0).pci == theirs.tasks[i].gpus.at(0).pci);
      CHECK(ours.tasks[i].cpus == theirs.tasks[i].cpus);
      CHECK(ours.tasks[i].memory == theirs.tasks[i].memory);
      CHECK(ours.tasks[i].gpu_nic == theirs.tasks[i].gpu_nic);
      REQUIRE(ours.tasks[i].nics.size() == theirs.tasks[i].nics.size());
      for (std::size_t nic = 0; nic < ours.tasks[i].nics.size(); ++nic)
        CHECK(ours.tasks[i].nics[nic].label == theirs.tasks[i].nics[nic].label);
    }
  }
}

TEST_CASE("The error for a wrong description names file and line") {
  const TemporaryFolder folder;
  const std::string start = "machine X\nsource Y\n";
  const auto [text, what] = GENERATE(table<std::string, std::string>({
      {"", "lacks a 'machine' or 'source' line"},
      {"machine X\nsource Y\n", "lacks a 'cpus' line"},
      {"machine X\nwrong 1\n", "x.machine, line 2: 'wrong' is not known"},
      {"machine\n", "line 1: the line ends too early"},
      {"cpus 2 1 0 1 20 20\n", "'0' must be a number between 1 and 1024"},
      {"cpus 1024 1024 1024 1 20 20\n", "too many CPUs"},
      {"cpus 1 1 4 1 20 20\ncpus 1 1 4 1 20 20\n", "line 2: too many CPUs"},
      {"cpus 1 1 4 1 20\n", "ends too early"},
      {"cpus 1 1 4 1 20 20\ngpu 01:00 0 a X\n", "'01:00' is not a PCI address"},
      {"cpus 1 1 4 1 20 20\ngpu 0000:01:00.0 1 a X\n", "no NUMA domain 1"},
      {"cpus 1 1 4 1 20 20\ngpu 0000:01:00.0 0 a X\ngpu 0000:01:00.0 0 a X\n",
       "line 3: GPU 0000:01:00.0 is listed twice"},
      {"cpus 1 1 4 1 20 20\nnic a - 0 b token-ring\n", "'token-ring' is not a kind of NIC"},
  }));
  INFO(text);
  CHECK_THROWS_WITH(read_machine(folder.write("x.machine", text)), ContainsSubstring(what));
  CHECK_THROWS_WITH(read_machine("/nowhere.machine"), ContainsSubstring("/nowhere.machine: cannot be read"));
}

TEST_CASE("Paths of a description give the distances of nvidia-smi topo") {
  const TemporaryFolder folder;
  const auto read = read_machine(folder.write("x.machine",
                                              "machine X\nsource Y\ncpus 2 1 2 1 20 20\n"
                                              "gpu 0000:01:00.0 0 a/s/1 G\nnic pix - 0 a/s/1 infiniband\n"
                                              "nic pxb - 0 a/s/2 infiniband\nnic phb - 0 a/t infiniband\n"
                                              "nic node - 0 b/s infiniband\nnic sys - 1 c infiniband\n"));
  const auto& gpu = read.node.gpus.at(0);
  for (const auto& nic : read.node.nics)
    CHECK(std::string(to_string(device_distance(gpu.path, gpu.domain, nic.path, nic.domain))) ==
          std::map<std::string, std::string>{
              {"pix", "PIX"}, {"pxb", "PXB"}, {"phb", "PHB"}, {"node", "NODE"}, {"sys", "SYS"}}
              .at(nic.name));
}
