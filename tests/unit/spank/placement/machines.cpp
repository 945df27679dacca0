// SPDX-License-Identifier: Apache-2.0
#include "machines.hpp"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <set>

namespace muster::placement::test {

namespace fs = std::filesystem;

Node make_node(const Shape& shape) {
  Node node;
  node.source = "synthetic";
  node.host = "testnode";
  const int domains = shape.packages * shape.domains_per_package;
  const int cores = domains * shape.cores_per_domain;
  for (int id = 0; id < domains; ++id) {
    NumaDomain domain;
    domain.id = id;
    domain.memory_bytes = 1u << 30;
    for (int other = 0; other < domains; ++other) {
      const bool same_package = id / shape.domains_per_package == other / shape.domains_per_package;
      domain.distances.push_back(id == other ? 10 : same_package ? 12 : 32);
    }
    for (int i = 0; i < shape.cores_per_domain; ++i) {
      Core core{id / shape.domains_per_package, id, {}};
      for (int thread = 0; thread < shape.threads; ++thread) {
        core.cpus.add(id * shape.cores_per_domain + i + thread * cores);
      }
      domain.cpus |= core.cpus;
      node.cores.push_back(core);
    }
    node.domains.push_back(std::move(domain));
  }
  return node;
}

namespace {

PciPath own_switch(int domain, int bus) {
  // Upstream and downstream port of a switch, with synthetic addresses that no other device has.
  const auto byte = static_cast<std::uint8_t>(bus);
  return {"pci" + std::to_string(domain), {PciAddress{1, byte, 0, 0}, PciAddress{1, byte, 1, 0}}};
}

PciAddress at_bus(int bus) { return {0, static_cast<std::uint8_t>(bus), 0, 0}; }

}  // namespace

void add_gpu(Node& node, int domain, int bus) {
  Gpu gpu;
  gpu.pci = at_bus(bus);
  gpu.domain = domain;
  gpu.path = own_switch(domain, bus);
  gpu.uuid = "GPU-" + std::to_string(bus);
  node.gpus.push_back(std::move(gpu));
  finish(node);
}

void add_nic(Node& node, const std::string& name, int domain, int bus, int gpu_bus, NicKind kind) {
  Nic nic;
  nic.name = name;
  nic.pci = at_bus(bus);
  nic.domain = domain;
  nic.path = own_switch(domain, gpu_bus >= 0 ? gpu_bus : bus);
  if (gpu_bus >= 0) nic.path.bridges.back().device = 2;  // another downstream port of the same switch
  nic.kind = kind;
  nic.up = true;
  node.nics.push_back(std::move(nic));
  finish(node);
}

std::vector<PciAddress> addresses(const Node& node) {
  std::vector<PciAddress> list;
  for (const auto& gpu : node.gpus) list.push_back(gpu.pci);
  return list;
}

namespace {

int pick(std::mt19937& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

/// Removes random cores, so that domains have unequal sizes.
void remove_cores(Node& node, std::mt19937& random) {
  for (int gone = pick(random, 1, 6); gone > 0 && node.cores.size() > 1; --gone) {
    const auto core = node.cores.begin() + pick(random, 0, static_cast<int>(node.cores.size()) - 1);
    auto& domain = node.domains[static_cast<std::size_t>(core->domain)];
    if ((domain.cpus - core->cpus).empty()) continue;
    domain.cpus -= core->cpus;
    node.cores.erase(core);
  }
}

/// Sets random distances.
void set_distances(Node& node, std::mt19937& random) {
  for (auto& domain : node.domains)
    for (std::size_t other = 0; other < domain.distances.size(); ++other)
      domain.distances[other] = domain.id == static_cast<int>(other) ? 10 : pick(random, 11, 40);
}

/// Adds a GPU's memory as a domain without CPUs.
void add_gpu_memory(Node& node) {
  NumaDomain memory;
  memory.id = static_cast<int>(node.domains.size());
  memory.gpu_memory = true;
  memory.memory_bytes = 1u << 30;
  for (auto& domain : node.domains) domain.distances.push_back(80);
  memory.distances.assign(node.domains.size() + 1, 80);
  memory.distances.back() = 10;
  node.domains.push_back(std::move(memory));
}

/// Adds GPUs: some without known domain, some near to two. domains: number of domains with CPUs.
void add_gpus(Node& node, int domains, std::mt19937& random) {
  const int gpus = pick(random, 0, 8);
  for (int i = 0; i < gpus; ++i) {
    // A statement of its own: compilers evaluate arguments in different orders.
    const int domain = pick(random, 0, 9) == 0 ? -1 : pick(random, 0, domains - 1);
    add_gpu(node, domain, pick(random, 0, 7) * 16 + i);
  }
  for (auto& gpu : node.gpus) {
    if (gpu.domain < 0 || domains < 3 || pick(random, 0, 4) > 0) continue;
    gpu.near_domains = {gpu.domain, (gpu.domain + 1) % domains};
    gpu.domain = -1;
  }
}

/// Adds NICs: some behind a GPU's switch, some down.
void add_nics(Node& node, int domains, std::mt19937& random) {
  const int gpus = static_cast<int>(node.gpus.size());
  const int nics = pick(random, 0, 6);
  for (int i = 0; i < nics; ++i) {
    const bool beside = gpus > 0 && pick(random, 0, 1) == 1;
    const auto& gpu =
        node.gpus.empty() ? Gpu() : node.gpus[static_cast<std::size_t>(pick(random, 0, gpus - 1))];
    const int domain = beside ? gpu.domain : pick(random, 0, domains - 1);
    add_nic(node, "mlx5_" + std::to_string(i), domain, 160 + i, beside ? gpu.pci.bus : -1);
    if (pick(random, 0, 4) == 0) node.nics.back().up = false;
  }
}

}  // namespace

Node random_node(std::mt19937& random) {
  const int packages = pick(random, 1, 2), domains_each = pick(random, 1, 4);
  const int cores = pick(random, 1, 8), threads = pick(random, 1, 2);
  Node node = make_node({packages, domains_each, cores, threads});
  const int domains = static_cast<int>(node.domains.size());
  if (pick(random, 0, 2) == 0) remove_cores(node, random);
  if (pick(random, 0, 1) == 1) set_distances(node, random);
  if (pick(random, 0, 3) == 0) add_gpu_memory(node);
  add_gpus(node, domains, random);
  add_nics(node, domains, random);
  std::shuffle(node.cores.begin(), node.cores.end(), random);
  std::shuffle(node.gpus.begin(), node.gpus.end(), random);
  std::shuffle(node.nics.begin(), node.nics.end(), random);
  finish(node);
  return node;
}

namespace {

/// Allots all CPUs, some of each domain, one domain, or very few anywhere.
void random_allotment(const Node& node, std::mt19937& random, Request& request) {
  const auto all = node.cpus().to_vector();
  const int kind = pick(random, 0, 4);
  if (kind == 2)
    request.cpus =
        node.domains[static_cast<std::size_t>(pick(random, 0, static_cast<int>(node.domains.size()) - 1))]
            .cpus;
  if (kind == 3) {
    for (int i = pick(random, 1, 4); i > 0; --i)
      request.cpus.add(all[static_cast<std::size_t>(pick(random, 0, static_cast<int>(all.size()) - 1))]);
  }
  if (kind == 4) {
    for (const int cpu : all) {
      if (pick(random, 0, 2) > 0) request.cpus.add(cpu);
    }
  }
}

}  // namespace

Request random_request(const Node& node, std::mt19937& random) {
  Request request;
  request.gpus = addresses(node);
  std::shuffle(request.gpus.begin(), request.gpus.end(), random);
  if (!request.gpus.empty())
    request.gpus.resize(static_cast<std::size_t>(pick(random, 0, static_cast<int>(request.gpus.size()))));
  int devices = static_cast<int>(request.gpus.size());
  if (devices > 0 && pick(random, 0, 5) == 0) {  // some GPUs are in MIG mode
    for (int i = pick(random, 1, 3) - 1; i >= 0; --i) {
      const auto& parent = request.gpus[static_cast<std::size_t>(i % devices)];
      request.mig.push_back({"MIG-" + std::to_string(i) + "a", parent});
      request.mig.push_back({"MIG-" + std::to_string(i) + "b", parent});
    }
    std::set<PciAddress> parents;
    for (const auto& mig : request.mig) parents.insert(mig.parent);
    devices += static_cast<int>(request.mig.size()) - static_cast<int>(parents.size());
  }
  request.tasks_per_gpu = pick(random, 0, 3) == 0 ? pick(random, 2, 4) : 1;
  request.tasks = devices > 0 ? pick(random, 1, devices * request.tasks_per_gpu) : pick(random, 1, 6);
  const int each = devices * request.tasks_per_gpu / request.tasks;
  request.gpus_per_task =
      devices > 0 && request.tasks_per_gpu == 1 && pick(random, 0, 1) == 1 ? pick(random, 1, each) : 0;
  random_allotment(node, random, request);
  request.cpus_per_task = pick(random, 0, 1) == 1 ? pick(random, 1, 5) : 0;
  request.hardware_threads = pick(random, 0, 1) == 1;
  return request;
}

std::optional<fs::path> real_topologies() {
  const char* shared = std::getenv("MUSTER_SHARED");
  const fs::path folder = shared != nullptr ? fs::path(shared) / "topologies" : fs::path();
  if (shared != nullptr && fs::is_directory(folder)) return folder;
  std::cerr << "SKIPPED: no real topology files ("
            << (shared != nullptr ? folder.string() : "MUSTER_SHARED is not set") << ")\n";
  return std::nullopt;
}

}  // namespace muster::placement::test
