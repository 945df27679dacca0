// SPDX-License-Identifier: Apache-2.0
// read_live() on a real kernel's sysfs with 4 NUMA domains, 4 fake GPUs and 4 RDMA devices, captured in the
// virtual machine of tests/lab-vm (docs/lab-vm.md). The GPUs' ids are fake, their positions are real.
#include <cstdlib>

#include "catch.hpp"
#include "placement/place/place.hpp"
#include "placement/topology/read.hpp"

using namespace muster::placement;

namespace {

const std::string tree = MUSTER_VM_SYSFS;

// Reads the same tree with hwloc for comparison; hwloc takes the root from the environment.
Node read_by_hwloc() {
  setenv("HWLOC_FSROOT", tree.c_str(), 1);
  setenv("HWLOC_THISSYSTEM", "0", 1);
  const Node node = read_hwloc_live();
  unsetenv("HWLOC_FSROOT");
  unsetenv("HWLOC_THISSYSTEM");
  return node;
}

}  // namespace

TEST_CASE("The virtual machine's sysfs is read completely") {
  const Node node = read_live(tree);
  CHECK(node.host == "vm0");
  REQUIRE(node.domains.size() == 4);
  CHECK(node.domains[0].distances == std::vector<int>{10, 12, 32, 32});
  CHECK(node.domains[3].distances == std::vector<int>{32, 32, 12, 10});
  REQUIRE(node.cores.size() == 8);
  CHECK(node.cores[3].cpus.to_list() == "6-7");
  CHECK(node.cores[3].package == 0);
  CHECK(node.cores[4].package == 1);
  REQUIRE(node.gpus.size() == 4);
  REQUIRE(node.nics.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const Gpu& gpu = node.gpus[i];
    const Nic& nic = node.nics[i];
    CHECK(node.domains[i].cpus.to_list() == std::to_string(4 * i) + "-" + std::to_string(4 * i + 3));
    CHECK(gpu.domain == static_cast<int>(i));
    CHECK(gpu.minor == static_cast<int>(i));
    CHECK(gpu.path.bridges.size() == 3);  // root port, the switch's upstream and downstream ports
    CHECK(nic.domain == static_cast<int>(i));
    CHECK(nic.kind == NicKind::roce);
    CHECK(nic.up == true);
    CHECK(nic.usable);
    CHECK(nic.path.bridges.at(1) == gpu.path.bridges.at(1));
    CHECK(device_distance(gpu.path, gpu.domain, nic.path, nic.domain) == Distance::pix);
  }
  CHECK(node.gpus[0].pci.to_string() == "0000:17:00.0");
  CHECK(node.nics[0].name == "rocep24s0");
}

TEST_CASE("hwloc reads the virtual machine's sysfs as read_live() does") {
  const Node ours = read_live(tree), theirs = read_by_hwloc();
  REQUIRE(theirs.cores.size() == ours.cores.size());
  for (std::size_t i = 0; i < ours.cores.size(); ++i) {
    CHECK(theirs.cores[i].cpus == ours.cores[i].cpus);
    CHECK(theirs.cores[i].domain == ours.cores[i].domain);
  }
  REQUIRE(theirs.domains.size() == ours.domains.size());
  for (std::size_t i = 0; i < ours.domains.size(); ++i)
    CHECK(theirs.domains[i].distances == ours.domains[i].distances);
}

TEST_CASE("The placement on the virtual machine equals the plugin's in the virtual machine's tests") {
  const Node node = read_live(tree);
  Request request;
  request.tasks = 4;
  for (const Gpu& gpu : node.gpus) request.gpus.push_back(gpu.pci);
  const Placement placement = place(node, request);
  const std::vector<std::string> cpus = {"0,2", "4,6", "8,10", "12,14"},
                                 nics = {"rocep24s0", "rocep52s0", "rocep80s0", "rocep108s0"};
  for (std::size_t i = 0; i < 4; ++i) {
    const TaskPlacement& task = placement.tasks[i];
    CHECK(task.cpus.to_list() == cpus[i]);
    CHECK(task.memory.at(0) == static_cast<int>(i));
    CHECK(task.nics.at(0).name == nics[i]);
    CHECK(task.gpu_cpu == Distance::node);
    CHECK(task.gpu_nic == Distance::pix);
  }
}
