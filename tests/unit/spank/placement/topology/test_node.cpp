// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "spank/placement/machines.hpp"

using namespace muster::placement;
using namespace muster::placement::test;

namespace {

PciAddress bridge(int bus, int device = 0) {
  return {0, static_cast<std::uint8_t>(bus), static_cast<std::uint8_t>(device), 0};
}

Nic port(const std::string& name, NicKind kind) {
  Nic nic;
  nic.name = name;
  nic.kind = kind;
  nic.up = true;
  return nic;
}

}  // namespace

TEST_CASE("Device distances are those of nvidia-smi topo") {
  const PciPath gpu{"pci0000:00", {bridge(0, 1), bridge(1), bridge(2, 0)}};
  SECTION("same switch") {
    CHECK(device_distance(gpu, 0, {"pci0000:00", {bridge(0, 1), bridge(1), bridge(2, 4)}}, 0) ==
          Distance::pix);
  }
  SECTION("another switch below the same one") {
    const PciPath nic{"pci0000:00", {bridge(0, 1), bridge(1), bridge(2, 4), bridge(5), bridge(6)}};
    CHECK(device_distance(gpu, 0, nic, 0) == Distance::pxb);
    CHECK(device_distance(nic, 0, gpu, 0) == Distance::pxb);
  }
  SECTION("one bridge too many for one switch") {
    const PciPath nic{"pci0000:00", {bridge(0, 1), bridge(1), bridge(2, 4), bridge(5)}};
    CHECK(device_distance(gpu, 0, nic, 0) == Distance::pxb);
    CHECK(device_distance(nic, 0, gpu, 0) == Distance::pxb);
  }
  SECTION("another root port of the same host bridge") {
    CHECK(device_distance(gpu, 0, {"pci0000:00", {bridge(0, 2)}}, 0) == Distance::phb);
  }
  SECTION("another host bridge") {
    CHECK(device_distance(gpu, 0, {"pci0000:40", {bridge(0x40, 1)}}, 0) == Distance::node);
    CHECK(device_distance(gpu, 0, {"pci0000:40", {bridge(0x40, 1)}}, 1) == Distance::sys);
  }
  SECTION("nothing known") { CHECK(device_distance({}, -1, {}, 0) == Distance::unknown); }
}

TEST_CASE("finish() gives the same order for any order of enumeration") {
  Node node = make_node({2, 2, 2, 2});
  for (const int bus : {0x40, 0x10, 0x80}) add_gpu(node, bus / 0x40, bus);
  for (const char* name : {"mlx5_10", "mlx5_2", "mlx5_0"}) {
    Nic nic = port(name, NicKind::infiniband);
    nic.pci = bridge(9);
    node.nics.push_back(nic);
  }
  finish(node);
  CHECK(node.gpus[0].pci.bus == 0x10);
  CHECK(node.nics[0].name == "mlx5_0");
  CHECK(node.nics[2].name == "mlx5_10");

  Node shuffled = node;
  std::reverse(shuffled.cores.begin(), shuffled.cores.end());
  std::reverse(shuffled.gpus.begin(), shuffled.gpus.end());
  std::reverse(shuffled.nics.begin(), shuffled.nics.end());
  std::reverse(shuffled.domains.begin(), shuffled.domains.end());
  for (auto& domain : shuffled.domains) std::reverse(domain.distances.begin(), domain.distances.end());
  finish(shuffled);
  for (std::size_t i = 0; i < node.domains.size(); ++i) {
    CHECK(shuffled.domains[i].id == node.domains[i].id);
    CHECK(shuffled.domains[i].distances == node.domains[i].distances);
  }
  for (std::size_t i = 0; i < node.cores.size(); ++i) CHECK(shuffled.cores[i].cpus == node.cores[i].cpus);
  CHECK(shuffled.gpus[2].pci == node.gpus[2].pci);
  CHECK(shuffled.nics[1].name == "mlx5_2");
}

TEST_CASE("Without a distance matrix, domain distances are 10 and 20") {
  Node node = make_node({2, 1, 2, 1});
  CHECK(node.domain_distance(0, 1) == 32);
  node.domains[0].distances.clear();
  CHECK(node.domain_distance(0, 0) == 10);
  CHECK(node.domain_distance(0, 1) == 20);
  CHECK(node.domain_distance(-1, 1) == 20);
}

TEST_CASE("Unusable NICs are left out, each with its reason") {
  const auto find_reason = [](std::vector<Nic> nics) {
    choose_nics(nics);
    return nics.front().usable ? std::string("usable") : nics.front().reason;
  };
  const Nic ib = port("mlx5_9", NicKind::infiniband);
  Nic roce = port("mlx5_0", NicKind::roce);
  CHECK(find_reason({ib}) == "usable");
  CHECK(find_reason({roce}) == "usable");
  CHECK(find_reason({roce, ib}) == "Ethernet port on a node that has InfiniBand");
  Nic down_ib = ib;
  down_ib.up = false;
  CHECK(find_reason({down_ib}) == "InfiniBand port is not active");
  CHECK(find_reason({roce, down_ib}) == "Ethernet port on a node that has InfiniBand");
  CHECK(find_reason({roce, port("rdmap0s0", NicKind::efa)}) == "Ethernet port on a node that has EFA");
  CHECK(find_reason({port("eth0", NicKind::ethernet)}) == "no RDMA");
  CHECK(find_reason({port("mlx5_an0", NicKind::roce)}) ==
        "Azure accelerated networking, not the RDMA fabric");
  CHECK(find_reason({port("usnic_0", NicKind::roce)}) == "Cisco usNIC, no RDMA");
  CHECK(find_reason({port("mana_0", NicKind::roce)}) == "Azure accelerated networking, not the RDMA fabric");

  Nic bonded = roce;
  bonded.bond = "bond0";
  CHECK(find_reason({bonded}) == "its interface belongs to bond0");
  bonded.name = "mlx5_bond_0";
  CHECK(find_reason({bonded}) == "usable");
  Nic ipoib = ib;  // verbs can use the ports of a bond of IPoIB interfaces
  ipoib.bond = "bond1";
  CHECK(find_reason({ipoib}) == "usable");
  Nic leftover = ib;
  leftover.leftover_vf = true;
  CHECK(find_reason({leftover}) == "SR-IOV virtual function whose physical function is on this node");
}

TEST_CASE("Among RoCE ports the slow one and the one with the default route are left out") {
  Nic fast = port("mlx5_1", NicKind::roce);
  fast.rate_gbps = 400;
  Nic slow = port("mlx5_0", NicKind::roce);
  slow.rate_gbps = 25;
  std::vector<Nic> nics{slow, fast};
  choose_nics(nics);
  CHECK(nics[0].reason == "25 Gb/s Ethernet beside RoCE ports of 400 Gb/s");
  CHECK(nics[1].usable);

  slow.rate_gbps = 400;
  slow.default_route = true;
  nics = {slow, fast};
  choose_nics(nics);
  CHECK(nics[0].reason == "Ethernet port that carries the default route");
  nics = {slow};
  choose_nics(nics);
  CHECK(nics[0].usable);  // it is the only port
}
