// SPDX-License-Identifier: Apache-2.0
// read_live() on synthetic trees of kernels and machines with other formats or wrong data.
#include "catch.hpp"
#include "placement/topology/read.hpp"
#include "spank/placement/machines.hpp"
#include "spank/placement/trees.hpp"

using namespace muster::placement;
using namespace muster::placement::test;

namespace {

const std::string cpus = "sys/devices/system/cpu/";
const std::string nodes = "sys/devices/system/node/";

std::string cpus_by_domain(const Node& node) {
  std::string text;
  for (const auto& domain : node.domains)
    text += std::to_string(domain.id) + ":" + domain.cpus.to_list() + " ";
  return text;
}

}  // namespace

TEST_CASE("A kernel with masks and without a list of online CPUs is supported") {
  const TemporaryFolder tree;
  for (int cpu = 0; cpu < 6; ++cpu) {
    const std::string folder = cpus + "cpu" + std::to_string(cpu);
    tree.write(folder + "/topology/thread_siblings",
               cpu < 4 ? (cpu % 2 == 0 ? "00000005" : "0000000a") : "00000030");
    tree.write(folder + "/topology/core_siblings", cpu < 4 ? "0000000f" : "00000030");
    tree.write(folder + "/topology/physical_package_id", cpu < 4 ? "0" : "1");
    if (cpu > 0) tree.write(folder + "/online", cpu == 5 ? "0" : "1");
  }
  tree.write(nodes + "node0/cpumap", "00000000,0000000f\n");
  tree.write(nodes + "node1/cpumap", "00000000,00000030\n");
  const Node node = read_live(tree.path().string());
  CHECK(cpus_by_domain(node) == "0:0-3 1:4 ");
  REQUIRE(node.cores.size() == 3);
  CHECK(node.cores[0].cpus.to_list() == "0,2");
  CHECK(node.cores[2].package == 1);
  CHECK_NOTHROW(place(node, {}));
}

TEST_CASE("CPUs that no domain lists do not prevent a placement") {
  const TemporaryFolder tree;
  tree.write(cpus + "online", "0-3");
  tree.write(nodes + "online", "1");
  tree.write(nodes + "node1/cpulist", "2-3");
  const Node node = read_live(tree.path().string());
  CHECK(cpus_by_domain(node) == "1:0-3 ");
  Request request;
  request.tasks = 2;
  CHECK(place(node, request).tasks[1].cpus.to_list() == "2-3");
}

TEST_CASE("CPUs that several domains list belong to the one with the fewest CPUs, or the first") {
  const TemporaryFolder tree;
  tree.write(cpus + "online", "0-7");
  tree.write(nodes + "online", "0-2");
  tree.write(nodes + "node0/cpulist", "0-7");  // memory that all CPUs share
  tree.write(nodes + "node1/cpulist", "0-3");
  tree.write(nodes + "node2/cpulist", "4-7");
  CHECK(cpus_by_domain(read_live(tree.path().string())) == "0: 1:0-3 2:4-7 ");
  for (const char* id : {"1", "2"}) tree.write(nodes + "node" + id + "/cpulist", "0-7");
  CHECK(cpus_by_domain(read_live(tree.path().string())) == "0:0-7 1: 2: ");
}

TEST_CASE("A null character at the end of a copied file is ignored") {
  const TemporaryFolder tree;
  tree.write(cpus + "online", "0-3\n");
  tree.write(nodes + "online", "0-1\n");
  tree.write(nodes + "node0/cpulist", std::string("0-1\n\0", 5));
  tree.write(nodes + "node1/cpulist", std::string("2-3\n\0", 5));
  CHECK(cpus_by_domain(read_live(tree.path().string())) == "0:0-1 1:2-3 ");
}

TEST_CASE("A device whose local CPUs cover several domains, but not all, is near to each of them") {
  const TemporaryFolder tree;
  tree.write(cpus + "online", "0-7");
  tree.write(nodes + "online", "0-3");
  for (int id = 0; id < 4; ++id)
    tree.write(nodes + "node" + std::to_string(id) + "/cpulist",
               std::to_string(id * 2) + "-" + std::to_string(id * 2 + 1));
  int minor = 0;
  for (const auto& [address, local] : {std::pair("0000:01:00.0", "ff"), std::pair("0000:02:00.0", "f0"),
                                       std::pair("0000:03:00.0", "0c"), std::pair("0000:04:00.0", "zz")}) {
    write_device(tree, "pci0000:00", "", address, "-1");
    tree.write("sys/devices/pci0000:00/" + std::string(address) + "/local_cpus", local);
    write_gpu(tree, address, "GPU-x", minor++);
  }
  const Node node = read_live(tree.path().string());
  REQUIRE(node.gpus.size() == 4);
  CHECK(node.gpus[0].domain == -1);
  CHECK(node.gpus[0].near_domains.empty());
  CHECK(node.gpus[1].domain == -1);
  CHECK(node.gpus[1].near_domains == std::vector<int>{2, 3});
  CHECK(node.gpus[2].domain == 1);
  CHECK(node.gpus[3].domain == -1);
}

TEST_CASE(
    "Slingshot adapters are found in their own class, EFA in the RDMA devices, and AMD's GPUs are noted") {
  const TemporaryFolder tree;
  write_cpus(tree);
  write_device(tree, "pci0000:00", "", "0000:05:00.0", "1");
  tree.link("sys/class/cxi/cxi0/device", "../../../bus/pci/devices/0000:05:00.0");
  tree.link("sys/class/cxi_user/cxi0/device", "../../../bus/pci/devices/0000:05:00.0");
  tree.write("sys/devices/pci0000:00/0000:05:00.0/net/hsn0/mtu", "9000");
  write_device(tree, "pci0000:00", "", "0000:06:00.0", "0");
  tree.write("sys/devices/pci0000:00/0000:06:00.0/vendor", "0x1d0f\n");
  write_nic(tree, "rdmap6s0", "0000:06:00.0", "Unspecified", "4: ACTIVE", "100 Gb/sec (4X EDR)");
  write_device(tree, "pci0000:00", "", "0000:07:00.0", "0");
  tree.write("sys/devices/pci0000:00/0000:07:00.0/vendor", "0x1002\n");
  tree.write("sys/devices/pci0000:00/0000:07:00.0/class", "0x038000\n");
  tree.write("sys/class/net/hsn0/operstate", "up\n");
  Node node = read_live(tree.path().string());
  REQUIRE(node.nics.size() == 2);
  CHECK(node.nics[0].name == "cxi0");
  CHECK(node.nics[0].kind == NicKind::slingshot);
  CHECK(node.nics[0].domain == 1);
  CHECK(node.nics[0].up == true);
  CHECK(node.nics[0].usable);
  CHECK(node.nics[1].kind == NicKind::efa);
  CHECK(node.nics[1].usable);
  CHECK(node.gpus.empty());
  CHECK(node.notes == std::vector<std::string>{"1 AMD GPU left out: Muster places NVIDIA GPUs"});
  tree.write("sys/class/net/hsn0/operstate", "down\n");
  node = read_live(tree.path().string());
  CHECK(node.nics[0].reason == "Slingshot (libfabric) port is not active");
}
