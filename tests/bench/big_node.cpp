// SPDX-License-Identifier: Apache-2.0
// The time that the topology cache saves: reads a synthetic /sys of 256 CPUs, 8 GPUs and 10 NICs with an
// empty and with a full cache, or with --live this machine's. The synthetic tree is in memory; real sysfs and
// a real driver are slower, so its figures are lower bounds.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "placement/topology/read.hpp"
#include "spank/placement/trees.hpp"
#include "step/topology_cache.hpp"

namespace made_up = muster::placement::test;

namespace {

constexpr int packages = 2, domains = 8, cores = 128, gpus = 8, nics = 10, other_devices = 250;

void write_many_cpus(const TemporaryFolder& tree) {
  tree.write("sys/devices/system/cpu/online", "0-" + std::to_string(2 * cores - 1) + "\n");
  tree.write("sys/devices/system/node/online", "0-" + std::to_string(domains - 1) + "\n");
  tree.write("sys/devices/system/node/has_memory", "0-" + std::to_string(domains - 1) + "\n");
  const auto range = [](int part, int parts) {
    const int size = cores / parts, first = part * size, last = first + size - 1;
    return std::to_string(first) + "-" + std::to_string(last) + "," + std::to_string(cores + first) + "-" +
           std::to_string(cores + last) + "\n";
  };
  for (int domain = 0; domain < domains; ++domain) {
    const std::string folder = "sys/devices/system/node/node" + std::to_string(domain);
    tree.write(folder + "/cpulist", range(domain, domains));
    std::string row;
    for (int other = 0; other < domains; ++other)
      row += other == domain                                             ? "10 "
             : other * packages / domains == domain * packages / domains ? "12 "
                                                                         : "32 ";
    tree.write(folder + "/distance", row + "\n");
    tree.write(folder + "/meminfo", "Node 0 MemTotal:  67108864 kB\n");
  }
  for (int cpu = 0; cpu < 2 * cores; ++cpu) {
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    const int core = cpu % cores, package = core * packages / cores;
    tree.write(folder + "thread_siblings_list",
               std::to_string(core) + "," + std::to_string(cores + core) + "\n");
    tree.write(folder + "core_siblings_list", range(package, packages));
    tree.write(folder + "physical_package_id", std::to_string(package) + "\n");
  }
}

std::string address(int bus) {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02x:00.0", bus);
  return text;
}

void write_many_devices(const TemporaryFolder& tree) {
  tree.write("proc/sys/kernel/random/boot_id", "b4b6e3c0-0000-4000-8000-000000000001\n");
  tree.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15\n");
  tree.write("proc/net/route",
             "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n");
  const auto device = [&](int bus, int domain) {
    made_up::write_device(tree, "pci0000:" + std::to_string(10 * domain), "0000:00:01.0/0000:01:00.0/",
                          address(bus), std::to_string(domain));
  };
  for (int gpu = 0; gpu < gpus; ++gpu) {
    device(3 + gpu, gpu);
    made_up::write_gpu(tree, address(3 + gpu), "GPU-" + std::to_string(gpu), gpu);
  }
  for (int nic = 0; nic < nics; ++nic) {
    device(40 + nic, nic % domains);
    made_up::write_nic(tree, "mlx5_" + std::to_string(nic), address(40 + nic), "InfiniBand", "4: ACTIVE",
                       "400 Gb/sec (4X NDR)");
    tree.write("sys/class/net/ib" + std::to_string(nic) + "/operstate", "up\n");
  }
  for (int other = 0; other < other_devices; ++other)
    tree.write("sys/bus/pci/devices/0001:" + address(other).substr(5) + "/class", "0x060400\n");
}

void print_times(const char* what, const std::function<void()>& body) {
  std::vector<double> times;
  for (int run = 0; run < 101; ++run) {
    const auto start = std::chrono::steady_clock::now();
    body();
    times.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  std::printf("%-44s %8.2f %8.2f %8.2f\n", what, times[25], times[50], times[75]);
}

void compare(const std::string& root, const std::string& folder) {
  print_times("nothing kept: all is read", [&] { muster::spank::TopologyCache("").read(root); });
  muster::spank::TopologyCache(folder, geteuid()).renew(root);
  print_times("kept: identity, record and NICs are read", [&] {
    muster::spank::TopologyCache cache(folder, geteuid());
    cache.read(root);
    if (cache.is_dirty()) std::abort();
  });
  print_times("of these the NICs", [&] {
    muster::placement::Node node;
    muster::placement::read_dynamic(node, root);
  });
}

}  // namespace

int main(int count, char* words[]) {
  setenv("TMPDIR", "/dev/shm", 0);
  const TemporaryFolder tree;
  const std::string root = tree.path().string();
  if (count > 1 && std::string(words[1]) == "--live") {
    const auto node = muster::placement::read_live();
    std::printf("this machine, %d CPUs, %zu GPUs, %zu NICs; ms: quartile, median, quartile of 101\n",
                node.cpus().size(), node.gpus.size(), node.nics.size());
    compare("/", root + "/kept");
    return 0;
  }
  write_many_cpus(tree);
  write_many_devices(tree);
  std::printf("%d CPUs, %d GPUs, %d NICs, %d other PCI devices; ms: quartile, median, quartile of 101\n",
              2 * cores, gpus, nics, other_devices);
  compare(root, root + "/kept");
}
