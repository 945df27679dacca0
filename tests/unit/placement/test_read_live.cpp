// SPDX-License-Identifier: Apache-2.0
// read_live() on made-up trees and on this machine.
#include <fstream>

#include "catch.hpp"
#include "machines.hpp"
#include "placement/error.hpp"
#include "placement/read.hpp"
#include "placement/read_live_devices.hpp"
#include "placement/socket_interface.hpp"

using namespace muster::placement;
using namespace muster::placement::test;

namespace {

/// Synthetic: two packages with two cores of two threads each, one NUMA domain per package.
void write_cpus(const TemporaryFolder& tree) {
  tree.write("sys/devices/system/cpu/online", "0-7\n");
  tree.write("sys/devices/system/node/online", "0-1\n");
  for (int package = 0; package < 2; ++package) {
    const std::string first = std::to_string(package * 2);
    const std::string cpus = package == 0 ? "0-1,4-5" : "2-3,6-7";
    const std::string node = "sys/devices/system/node/node" + std::to_string(package);
    tree.write(node + "/cpulist", cpus + "\n");
    tree.write(node + "/distance", package == 0 ? "10 21\n" : "21 10\n");
    tree.write(node + "/meminfo", "Node 0 MemTotal:       1024 kB\nNode 0 MemFree:  1 kB\n");
    for (int core = package * 2; core < package * 2 + 2; ++core) {
      for (const int cpu : {core, core + 4}) {
        const std::string topology = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology";
        tree.write(topology + "/thread_siblings_list",
                   std::to_string(core) + "," + std::to_string(core + 4) + "\n");
        tree.write(topology + "/core_siblings_list", cpus + "\n");
        tree.write(topology + "/physical_package_id", std::to_string(package) + "\n");
      }
    }
  }
}

void write_device(const TemporaryFolder& tree, const std::string& host, const std::string& path,
                  const std::string& address, const std::string& domain) {
  const std::string real = "sys/devices/" + host + "/" + path + address;
  tree.write(real + "/numa_node", domain + "\n");
  tree.link("sys/bus/pci/devices/" + address, "../../../devices/" + host + "/" + path + address);
}

void write_gpu(const TemporaryFolder& tree, const std::string& address, const std::string& uuid, int minor,
               const std::string& excluded = "No") {
  tree.write("proc/driver/nvidia/gpus/" + address + "/information",
             "Model: \t\t NVIDIA H100\nIRQ:   \t\t 35\nGPU UUID: \t " + uuid + "\nBus Location: \t " +
                 address + "\nDevice Minor: \t " + std::to_string(minor) + "\nGPU Excluded:\t " + excluded +
                 "\n");
}

void write_nic(const TemporaryFolder& tree, const std::string& name, const std::string& address,
               const std::string& layer, const std::string& state, const std::string& rate) {
  const std::string folder = "sys/class/infiniband/" + name;
  tree.link(folder + "/device", "../../../bus/pci/devices/" + address);
  tree.write(folder + "/ports/1/link_layer", layer + "\n");
  tree.write(folder + "/ports/1/state", state + "\n");
  tree.write(folder + "/ports/1/rate", rate + "\n");
}

void write_machine(const TemporaryFolder& tree) {
  write_cpus(tree);
  tree.write("proc/sys/kernel/hostname", "n17\n");
  tree.write("proc/net/route",
             "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
             "eno1\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
             "ib0\t0000A8C0\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n");
  const std::string swtch = "0000:00:01.0/0000:01:00.0/";
  write_device(tree, "pci0000:00", swtch + "0000:02:00.0/", "0000:03:00.0", "0");
  write_device(tree, "pci0000:00", swtch + "0000:02:01.0/", "0000:04:00.0", "0");
  write_device(tree, "pci0000:80", "0000:80:01.0/", "0000:81:00.0", "1");
  write_device(tree, "pci0000:80", "0000:80:02.0/", "0000:82:00.0", "-1");
  write_gpu(tree, "0000:03:00.0", "GPU-aaaa", 1);
  write_gpu(tree, "0000:81:00.0", "GPU-" + std::string(8, '?'), 0);
  write_gpu(tree, "0000:c1:00.0", "GPU-cccc", 2, "Yes");
  write_nic(tree, "mlx5_0", "0000:04:00.0", "InfiniBand", "4: ACTIVE", "400 Gb/sec (4X NDR)");
  write_nic(tree, "mlx5_1", "0000:82:00.0", "Ethernet", "1: DOWN", "2.5 Gb/sec (1X SDR)");
  tree.write("sys/devices/pci0000:80/0000:80:02.0/0000:82:00.0/net/eno1/mtu", "1500\n");
}

}  // namespace

TEST_CASE("A made-up tree is read completely") {
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

TEST_CASE("Without the driver GPUs are found on the PCI bus, other functions of the chip are not") {
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

TEST_CASE("A kernel without NUMA is one domain; a tree without CPUs is refused") {
  const TemporaryFolder tree;
  tree.write("sys/devices/system/cpu/online", "0-3");
  const Node node = read_live(tree.path().string());
  REQUIRE(node.domains.size() == 1);
  CHECK(node.cores.size() == 4);
  const TemporaryFolder empty;
  CHECK_THROWS_WITH(read_live(empty.path().string()),
                    Catch::Matchers::ContainsSubstring("is sysfs mounted there?"));
}

TEST_CASE("Rubbish in any file of the tree is survived") {
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
    std::string sound;
    std::getline(std::ifstream(tree.path() / file), sound, '\0');
    for (const std::string rubbish :
         {"", "\n", "x", "-", "99999999999999999999", "0-", "-5", "4294967295", "0,0,0,,"}) {
      INFO(file << " holds \"" << rubbish << "\"");
      tree.write(file, rubbish);
      const Node node = read_live(tree.path().string());
      Request request;
      request.gpus = addresses(node);
      CHECK_NOTHROW(place(node, request));
    }
    tree.write(file, sound);
  }
}

TEST_CASE("Device links give the way up to the processor") {
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

TEST_CASE("This machine: sysfs and hwloc agree") {
  const Node ours = read_live();
  const Node theirs = read_hwloc_live();
  // hwloc sees only what this process may use; the reader sees the machine.
  CHECK(theirs.cpus().is_subset_of(ours.cpus()));
  for (const auto& core : theirs.cores) {
    const auto same = std::find_if(ours.cores.begin(), ours.cores.end(),
                                   [&](const Core& other) { return other.cpus.intersects(core.cpus); });
    REQUIRE(same != ours.cores.end());
    CHECK(core.cpus.is_subset_of(same->cpus));
    if (ours.domains.size() > 1) CHECK(core.domain == same->domain);
  }
}

TEST_CASE("The socket interface is the one that routes to the peer") {
  const TemporaryFolder tree;
  write_machine(tree);
  const std::string root = tree.path().string();
  CHECK(socket_interface_to("", root) == "eno1");
  CHECK(socket_interface_to("192.168.7.9", root) == "ib0");
  CHECK(socket_interface_to("10.1.2.3", root) == "eno1");
  CHECK(socket_interface_to("127.0.0.1", root) == "eno1");
  CHECK_THROWS_AS(socket_interface_to("n17", root), Error);
  CHECK_THROWS_AS(socket_interface_to("1.2.3.4.5", root), Error);
}

TEST_CASE("Without a route the only real interface counts, and no bridge of a container tool") {
  const TemporaryFolder tree;
  for (const char* name : {"lo", "docker0", "virbr0", "veth12ab", "eth7"}) {
    tree.write("sys/class/net/" + std::string(name) + "/operstate", "up\n");
  }
  CHECK(socket_interface_to("", tree.path().string()) == "eth7");
  tree.write("sys/class/net/eth8/operstate", "down\n");
  CHECK(socket_interface_to("", tree.path().string()) == "eth7");
  tree.write("sys/class/net/eth9/operstate", "up\n");
  CHECK(socket_interface_to("", tree.path().string()).empty());
}
