// SPDX-License-Identifier: Apache-2.0
// An administrator's topology file that overrides the live machine's locality.
#include "catch.hpp"
#include "placement/topology/read.hpp"
#include "spank/placement/machines.hpp"
#include "spank/placement/trees.hpp"
#include "temporary_folder.hpp"

using namespace muster::placement;
using namespace muster::placement::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// A virtual machine: every device has a host bridge of its own and no NUMA domain.
void write_virtual_machine(const TemporaryFolder& tree) {
  write_cpus(tree);
  int minor = 0;
  for (const std::string address : {"0001:00:00.0", "0002:00:00.0", "0003:00:00.0"}) {
    write_device(tree, "pci" + address.substr(0, 7), "", address, "-1");
    write_gpu(tree, address, "GPU-" + address.substr(0, 4), minor++);
  }
  for (const std::string address : {"0101:00:00.0", "0102:00:00.0", "0103:00:00.0"}) {
    write_device(tree, "pci" + address.substr(0, 7), "", address, "-1");
    write_nic(tree, "mlx5_ib" + std::string(1, static_cast<char>(address[3] - 1)), address, "InfiniBand",
              "4: ACTIVE", "200 Gb/sec (4X HDR)");
  }
}

const char* topology = R"(<system version="1">
  <cpu numaid="1" affinity="cc"><pci busid="ffff:ff:01.0" class="0x060400">
    <pci busid="0001:00:00.0" class="0x030200"/><pci busid="0102:00:00.0" class="0x020700"/></pci></cpu>
  <cpu numaid="0" affinity="33"><pci busid="ffff:ff:02.0" class="0x060400">
    <pci busid="0002:00:00.0" class="0x030200"/><pci busid="0101:00:00.0" class="0x020700"/>
    <pci busid="0009:00:00.0" class="0x030200"/></pci></cpu>
</system>)";

std::string notes(const Node& node) {
  std::string all;
  for (const auto& note : node.notes) all += note + "\n";
  return all;
}

}  // namespace

TEST_CASE("A topology file gives a virtual machine the locality that its PCI tree hides") {
  const TemporaryFolder tree;
  write_virtual_machine(tree);
  const std::string root = tree.path().string();
  CHECK(read_live(root).gpus[0].domain == -1);
  const std::string file = tree.write("topology.xml", topology);
  const Node node = read_with_locality(root, file);
  REQUIRE(node.gpus.size() == 3);
  CHECK(node.gpus[0].domain == 1);
  CHECK(node.gpus[0].uuid == "GPU-0001");
  CHECK(node.gpus[1].domain == 0);
  CHECK(node.gpus[2].domain == -1);
  CHECK(node.cores[0].cpus.to_list() == "0,4");  // hardware threads are not in the file
  Request request;
  request.gpus = {node.gpus[0].pci, node.gpus[1].pci};
  request.tasks = 2;
  const auto placement = place(node, request);
  CHECK(placement.tasks[0].cpus.to_list() == "2-3");
  CHECK(placement.tasks[0].gpu_cpu == Distance::node);
  CHECK(placement.tasks[0].nics.at(0).name == "mlx5_ib1");
  CHECK(placement.tasks[0].gpu_nic == Distance::pix);
  CHECK(placement.tasks[1].nics.at(0).name == "mlx5_ib0");
  CHECK_THAT(notes(node), ContainsSubstring("taken from " + file));
  CHECK_THAT(notes(node), ContainsSubstring("does not name GPU 0003:00:00.0, NIC 0103:00:00.0: the live"));
  CHECK_THAT(notes(node), ContainsSubstring("names GPU 0009:00:00.0, not found"));
}

// Like Amazon's file for g5.48xlarge (aws-ofi-nccl, topology/g5.48xl-topo.xml).
TEST_CASE(
    "A topology file without affinities and classes gives the locality of the devices at its addresses") {
  const TemporaryFolder tree;
  write_virtual_machine(tree);
  const std::string root = tree.path().string();
  const std::string file = tree.write("topology.xml", R"(<system version="1">
  <cpu numaid="0"><pci busid="0002:00:00.0"/><pci busid="0101:00:00.0"/><pci busid="0009:00:00.0"/></cpu>
  <cpu numaid="1"><pci busid="0001:00:00.0"/><pci busid="0102:00:00.0"/></cpu>
</system>)");
  const Node node = read_with_locality(root, file);
  REQUIRE(node.gpus.size() == 3);
  CHECK(node.gpus[0].domain == 1);
  CHECK(node.gpus[1].domain == 0);
  CHECK(node.gpus[2].domain == -1);
  REQUIRE(node.nics.size() == 3);
  CHECK(node.nics[0].domain == 0);
  CHECK(node.nics[1].domain == 1);
  CHECK(node.domains[0].cpus.to_list() == "0-1,4-5");
  CHECK_THAT(notes(node), ContainsSubstring("names device 0009:00:00.0, not found"));
  // Alone it does not describe a machine; this machine's CPUs are known.
  CHECK_THROWS_WITH(read_nccl_xml(file), ContainsSubstring("no <cpu> element with an affinity mask"));
  CHECK(read_topology_file(file, root).gpus.at(0).domain == 1);
  CHECK(read_topology_file(file, root).cpus() == node.cpus());
  const TemporaryFolder other;
  write_cpus(other);
  CHECK_THROWS_WITH(read_topology_file(file, other.path().string()),
                    ContainsSubstring("does not say which CPUs its NUMA domains have") &&
                        ContainsSubstring("plan on such a machine"));
  CHECK_THROWS_WITH(read_nccl_locality(tree.write("empty.xml", "<system/>")),
                    ContainsSubstring("has no <cpu> element"));
}

TEST_CASE("A domain that the machine lacks is ignored and noted, but the path is used") {
  const TemporaryFolder tree;
  write_virtual_machine(tree);
  std::string changed = topology;
  changed.replace(changed.find("numaid=\"1\""), 10, "numaid=\"7\"");
  const Node node = read_with_locality(tree.path().string(), tree.write("topology.xml", changed));
  CHECK(node.gpus[0].domain == -1);
  CHECK(device_distance(node.gpus[0].path, -1, node.nics[1].path, -1) == Distance::pix);
  CHECK_THAT(notes(node), ContainsSubstring("NUMA domains that this machine lacks: 7"));
}

TEST_CASE("Errors of a topology file name the file") {
  const TemporaryFolder tree;
  write_virtual_machine(tree);
  const std::string root = tree.path().string();
  const auto read = [&](const std::string& content) {
    return read_with_locality(root, tree.write("topology.xml", content));
  };
  CHECK_THROWS_WITH(read_with_locality(root, "/nowhere.xml"),
                    ContainsSubstring("/nowhere.xml: cannot be read"));
  CHECK_THROWS_WITH(read("<topology/>"), ContainsSubstring("topology.xml: not an NCCL topology file"));
  CHECK_THROWS_WITH(read("<system><cpu"), ContainsSubstring("not a complete XML file"));
  // Nested entities that would exhaust the memory are not expanded.
  std::string bomb = "<!DOCTYPE system [<!ENTITY a0 \"f\">";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "&a" + std::to_string(i - 1) + ";";
    bomb += "<!ENTITY a" + std::to_string(i) + " \"" + before + before + before + "\">";
  }
  bomb += "]><system><cpu numaid=\"0\" affinity=\"&a39;\"/></system>";
  CHECK_THROWS_WITH(read(bomb), ContainsSubstring("not a CPU mask"));
  CHECK_THROWS_AS(read_topology_file(tree.write("bomb.xml", bomb)), Error);
  const std::string entity =
      "<!DOCTYPE topology [<!ENTITY x SYSTEM \"/dev/zero\">]><topology version=\"2.0\"><object "
      "type=\"Machine\">&x;</object></topology>";
  CHECK_THROWS_WITH(read_topology_file(tree.write("entity.xml", entity)),
                    ContainsSubstring("defines XML entities"));
}
