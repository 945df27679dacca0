// SPDX-License-Identifier: Apache-2.0
// read_live() on synthetic trees and on this machine.
#include <sys/resource.h>

#include <fstream>

#include "catch.hpp"
#include "placement/environment/socket_interface.hpp"
#include "placement/topology/error.hpp"
#include "placement/topology/live/read_live_devices.hpp"
#include "placement/topology/read.hpp"
#include "spank/placement/machines.hpp"
#include "spank/placement/trees.hpp"
#include "temporary_folder.hpp"

using namespace muster::placement;
using namespace muster::placement::test;

TEST_CASE("A synthetic tree is read completely") {
  const TemporaryFolder tree;
  write_machine(tree);
  const Node node = read_live(tree.path().string());
  CHECK(node.host == "n17");
  REQUIRE(node.cores.size() == 4);
  CHECK(node.cores[2].cpus.to_list() == "2,6");
  CHECK(node.cores[2].package == 1);
  CHECK(node.cores[2].domain == 1);
  REQUIRE(node.domains.size() == 2);
  CHECK(node.domains[1].distances == std::vector<int>{21, 10});
  CHECK(node.domains[0].memory_bytes == 1024u * 1024u);

  REQUIRE(node.gpus.size() == 2);
  CHECK(node.gpus[0].uuid == "GPU-aaaa");
  CHECK(node.gpus[0].minor == 1);
  CHECK(node.gpus[0].model == "NVIDIA H100");
  CHECK(node.gpus[0].domain == 0);
  CHECK(node.gpus[0].path.host_bridge == "pci0000:00");
  CHECK(node.gpus[0].path.bridges.size() == 3);
  CHECK(node.gpus[1].uuid.empty());
  CHECK(node.notes.size() == 1);  // the excluded GPU

  REQUIRE(node.nics.size() == 2);
  CHECK(node.nics[0].usable);
  CHECK(node.nics[0].rate_gbps == 400);
  CHECK(device_distance(node.gpus[0].path, 0, node.nics[0].path, 0) == Distance::pix);
  CHECK(node.nics[1].domain == -1);
  CHECK(node.nics[1].default_route);
  CHECK_FALSE(node.nics[1].usable);
}

TEST_CASE("Without the driver, GPUs are found on the PCI bus, but not other functions of the chip") {
  const TemporaryFolder tree;
  write_cpus(tree);
  for (const auto& [address, kind] :
       {std::pair("0000:03:00.0", "0x030200"), std::pair("0000:03:00.1", "0x040300")}) {
    write_device(tree, "pci0000:00", "0000:00:01.0/", address, "1");
    tree.write("sys/bus/pci/devices/" + std::string(address) + "/vendor", "0x10de\n");
    tree.write("sys/bus/pci/devices/" + std::string(address) + "/class", std::string(kind) + "\n");
  }
  const Node node = read_live(tree.path().string());
  REQUIRE(node.gpus.size() == 1);
  CHECK(node.gpus[0].pci.function == 0);
  CHECK(node.gpus[0].domain == 1);
}

TEST_CASE("A kernel without NUMA gives one domain, and a tree without CPUs is refused") {
  const TemporaryFolder tree;
  tree.write("sys/devices/system/cpu/online", "0-3");
  const Node node = read_live(tree.path().string());
  REQUIRE(node.domains.size() == 1);
  CHECK(node.cores.size() == 4);
  const TemporaryFolder empty;
  CHECK_THROWS_WITH(read_live(empty.path().string()),
                    Catch::Matchers::ContainsSubstring("is sysfs mounted there?"));
}

TEST_CASE("With garbage in any file of the tree, a node is still read and can be placed on") {
  const TemporaryFolder tree;
  write_machine(tree);
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(tree.path())) {
    if (entry.is_regular_file() && !entry.is_symlink()) {
      files.push_back(std::filesystem::relative(entry.path(), tree.path()).string());
    }
  }
  REQUIRE(files.size() > 40);
  for (const auto& file : files) {
    std::string original;
    std::getline(std::ifstream(tree.path() / file), original, '\0');
    for (const std::string garbage :
         {"", "\n", "x", "-", "99999999999999999999", "0-", "-5", "4294967295", "0,0,0,,"}) {
      INFO(file << " holds \"" << garbage << "\"");
      tree.write(file, garbage);
      const Node node = read_live(tree.path().string());
      Request request;
      request.gpus = addresses(node);
      CHECK_NOTHROW(place(node, request));
    }
    tree.write(file, original);
  }
}

TEST_CASE("Device links give the path up to the processor") {
  const auto path = parse_device_link("../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0");
  CHECK(path.host_bridge == "pci0000:00");
  REQUIRE(path.bridges.size() == 1);
  CHECK(path.bridges[0].to_string() == "0000:00:01.0");
  CHECK(parse_device_link("../../../devices/virtual/net/x").host_bridge.empty());
  const auto vmd =
      parse_device_link("../../../devices/pci0000:00/0000:00:0e.0/pci10000:00/10000:00:02.0/10000:01:00.0");
  CHECK(vmd.host_bridge == "pci10000:00");
  CHECK(vmd.bridges.size() == 1);
}

TEST_CASE("On this machine, sysfs and hwloc agree") {
  const Node ours = read_live();
  const Node theirs = read_hwloc_live();
  // hwloc reports only the CPUs that this process may use; read_live() reports the machine.
  CHECK(theirs.cpus().is_subset_of(ours.cpus()));
  for (const auto& core : theirs.cores) {
    const auto same = std::find_if(ours.cores.begin(), ours.cores.end(),
                                   [&](const Core& other) { return other.cpus.intersects(core.cpus); });
    REQUIRE(same != ours.cores.end());
    CHECK(core.cpus.is_subset_of(same->cpus));
    if (ours.domains.size() > 1) CHECK(core.domain == same->domain);
  }
}

TEST_CASE("The socket interface is that of the route to the peer") {
  const TemporaryFolder tree;
  write_machine(tree);
  const std::string root = tree.path().string();
  CHECK(route_interface_from_proc("", root) == "eno1");
  CHECK(route_interface_from_proc("192.168.7.9", root) == "ib0");
  CHECK(route_interface_from_proc("10.1.2.3", root) == "eno1");
  CHECK(route_interface_from_proc("127.0.0.1", root) == "eno1");
  CHECK_THROWS_AS(route_interface_from_proc("n17", root), Error);
  CHECK_THROWS_AS(route_interface_from_proc("1.2.3.4.5", root), Error);
}

TEST_CASE("Without a route, the only interface that no container tool created counts") {
  const TemporaryFolder tree;
  for (const char* name : {"lo", "docker0", "virbr0", "veth12ab", "eth7"}) {
    tree.write("sys/class/net/" + std::string(name) + "/operstate", "up\n");
  }
  CHECK(route_interface_from_proc("", tree.path().string()) == "eth7");
  tree.write("sys/class/net/eth8/operstate", "down\n");
  CHECK(route_interface_from_proc("", tree.path().string()) == "eth7");
  tree.write("sys/class/net/eth9/operstate", "up\n");
  CHECK(route_interface_from_proc("", tree.path().string()).empty());
}

TEST_CASE("Without file descriptors, reading throws and does not return a smaller machine") {
  const TemporaryFolder tree;
  write_machine(tree);
  const std::string root = tree.path().string();
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none = before;
  none.rlim_cur = 0;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  std::string why;
  try {
    Node node;
    node.domains.resize(1);
    read_live_gpus(Sysfs(root), node);
  } catch (const Error& error) {
    why = error.what();
  }
  setrlimit(RLIMIT_NOFILE, &before);
  CHECK(why == "/proc/driver/nvidia/gpus cannot be read: Too many open files");
}
