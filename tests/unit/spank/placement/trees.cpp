// SPDX-License-Identifier: Apache-2.0
#include "trees.hpp"

#include "placement/topology/read.hpp"

namespace muster::placement::test {

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
               const std::string& excluded) {
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

namespace {

/// 10 within a domain, 40 between processors, 80 or 120 between a processor and a GPU, 160 between GPUs.
int grace_distance(const Grace& grace, int from, int to) {
  if (from == to) return 10;
  if (!grace.distances) return 20;
  const auto processor = [&](int id) {
    return id < grace.processors ? id : (id - grace.processors) / 8 / grace.gpus_per_processor;
  };
  const int gpus = (from >= grace.processors ? 1 : 0) + (to >= grace.processors ? 1 : 0);
  if (gpus == 0) return 40;
  if (gpus == 2) return 160;
  return processor(from) == processor(to) ? 80 : 120;
}

void write_grace_domains(const TemporaryFolder& tree, const Grace& grace) {
  const int domains = grace.processors * (1 + 8 * grace.gpus_per_processor);
  tree.write("sys/devices/system/cpu/online", "0-" + std::to_string(72 * grace.processors - 1) + "\n");
  tree.write("sys/devices/system/node/online", "0-" + std::to_string(domains - 1) + "\n");
  for (int id = 0; id < domains; ++id) {
    const std::string folder = "sys/devices/system/node/node" + std::to_string(id);
    const bool processor = id < grace.processors;
    const std::string cpus =
        processor ? std::to_string(72 * id) + "-" + std::to_string(72 * id + 71) : std::string();
    const bool has_memory = processor || (id - grace.processors) % 8 == 0;
    tree.write(folder + "/cpulist", cpus + "\n");
    tree.write(folder + "/meminfo", "Node " + std::to_string(id) +
                                        " MemTotal:       " + (has_memory ? "100663296" : "0") + " kB\n");
    std::string distances;
    for (int other = 0; other < domains; ++other)
      distances += (other == 0 ? "" : " ") + std::to_string(grace_distance(grace, id, other));
    tree.write(folder + "/distance", distances + "\n");
    if (!processor) continue;
    const std::string topology = "sys/devices/system/cpu/cpu" + std::to_string(72 * id) + "/topology/";
    tree.write(topology + "core_siblings_list", cpus + "\n");
    tree.write(topology + "physical_package_id", std::to_string(id) + "\n");
  }
}

}  // namespace

void write_grace(const TemporaryFolder& tree, const Grace& grace) {
  write_grace_domains(tree, grace);
  for (int gpu = 0; gpu < grace.processors * grace.gpus_per_processor; ++gpu) {
    const int processor = gpu / grace.gpus_per_processor;
    const int memory = grace.processors + 8 * gpu;
    // 0008:01:00.0, 0009:01:00.0, 0018:01:00.0, ...: each GPU is the only device of a PCI domain.
    const std::string bus =
        "00" + std::to_string(processor) + std::to_string(8 + gpu % grace.gpus_per_processor);
    const std::string address = bus + ":01:00.0";
    write_device(tree, "pci" + bus + ":00", bus + ":00:00.0/", address,
                 std::to_string(grace.gpus_on_own_memory ? memory : processor));
    write_gpu(tree, address, "GPU-" + std::to_string(gpu), gpu);
    tree.write("proc/driver/nvidia/gpus/" + address + "/numa_status",
               "Node: " + std::to_string(memory) + "\nStatus: online\n");
  }
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

Node read_with_locality(const std::string& root, const std::string& file) {
  Node node = read_live(root);
  override_locality(node, read_nccl_locality(file));
  return node;
}

}  // namespace muster::placement::test
