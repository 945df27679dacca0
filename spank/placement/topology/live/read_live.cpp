// SPDX-License-Identifier: Apache-2.0
// CPUs and NUMA domains of the running machine, read from sysfs directly because this runs in every job step:
// hwloc takes 7 to 40 ms for it on a small machine and seconds on a large one.
#include <charconv>
#include <map>

#include "placement/topology/error.hpp"
#include "placement/topology/live/read_live_devices.hpp"
#include "placement/topology/live/sysfs.hpp"
#include "placement/topology/read.hpp"

namespace muster::placement {

namespace {

// Not std::string: its construction could throw while the plugin is loaded.
constexpr const char* cpu_folder = "/sys/devices/system/cpu";
constexpr const char* node_folder = "/sys/devices/system/node";

CpuSet online_cpus(const Sysfs& sysfs) {
  if (auto online = sysfs.list(std::string(cpu_folder) + "/online"); online && !online->empty())
    return *online;
  CpuSet online = sysfs.numbers(cpu_folder, "cpu");
  for (const int cpu : online.to_vector()) {
    if (sysfs.number(std::string(cpu_folder) + "/cpu" + std::to_string(cpu) + "/online") == 0)
      online.remove(cpu);
  }
  return online;
}

/// Parses "Node 0 MemTotal:  131072 kB"; returns bytes.
std::optional<std::uint64_t> total_memory(const std::string& meminfo) {
  const std::string_view key = "MemTotal:";
  const auto at = meminfo.find(key);
  if (at == std::string::npos) return std::nullopt;
  const auto end = meminfo.find("kB", at);
  if (end == std::string::npos) return std::nullopt;
  const auto kibibytes = to_number(std::string_view(meminfo).substr(at + key.size(), end - at - key.size()));
  if (!kibibytes || *kibibytes < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*kibibytes) * 1024;
}

/// Parses "10 21 31"; empty for any other text.
std::vector<int> read_distances(const Sysfs& sysfs, const std::string& path) {
  std::vector<int> distances;
  const auto text = sysfs.text(path);
  if (!text) return distances;
  const char* at = text->data();
  const char* end = at + text->size();
  while (at != end) {
    while (at != end && *at == ' ') ++at;
    int value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 0) return {};
    distances.push_back(value);
    at = next;
  }
  return distances;
}

/// Reads CPUs from the first of several files; the kernel has used several names. Names that end in "list"
/// hold a list, the others (before Linux 2.6.29) a mask.
std::optional<CpuSet> read_cpus(const Sysfs& sysfs, const std::string& folder,
                                std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const bool is_list = std::string_view(name).ends_with("list");
    if (auto cpus = is_list ? sysfs.list(folder + name) : sysfs.mask(folder + name)) return cpus;
  }
  return std::nullopt;
}

std::vector<NumaDomain> read_domains(const Sysfs& sysfs, const CpuSet& cpus) {
  std::vector<NumaDomain> domains;
  CpuSet ids = sysfs.list(std::string(node_folder) + "/online").value_or(CpuSet());
  if (ids.empty()) ids = sysfs.numbers(node_folder, "node");
  for (const int id : ids.to_vector()) {
    const std::string folder = std::string(node_folder) + "/node" + std::to_string(id);
    NumaDomain domain;
    domain.id = id;
    domain.cpus = read_cpus(sysfs, folder, {"/cpulist", "/cpumap"}).value_or(CpuSet()) & cpus;
    if (const auto meminfo = sysfs.text(folder + "/meminfo")) domain.memory_bytes = total_memory(*meminfo);
    // The kernel prints one distance per online domain, in ascending order of ids, as `domains` is ordered.
    domain.distances = read_distances(sysfs, folder + "/distance");
    domains.push_back(std::move(domain));
  }
  if (domains.empty()) {  // a kernel without NUMA: everything is equally near
    domains.emplace_back();
    domains.back().cpus = cpus;
    if (const auto meminfo = sysfs.text("/proc/meminfo"))
      domains.back().memory_bytes = total_memory(*meminfo);
  }
  return domains;
}

/// The domain of a CPU. If several list it, the one with the fewest CPUs is its own memory and the others are
/// shared; the lowest one if a BIOS lists all CPUs in all domains, or the CPU in none.
int own_domain(int cpu, const std::vector<NumaDomain>& domains) {
  const NumaDomain* own = nullptr;
  for (const auto& domain : domains) {
    if (domain.cpus.contains(cpu) && (own == nullptr || domain.cpus.size() < own->cpus.size())) own = &domain;
  }
  return own != nullptr ? own->id : domains.front().id;
}

std::vector<Core> read_cores(const Sysfs& sysfs, const CpuSet& cpus, const std::vector<NumaDomain>& domains) {
  std::map<int, int> package_of;  // filled by package: reads one file instead of one per core
  std::vector<Core> cores;
  CpuSet rest = cpus;
  for (int cpu = rest.first(); cpu >= 0; cpu = rest.first()) {
    const std::string folder = std::string(cpu_folder) + "/cpu" + std::to_string(cpu) + "/topology/";
    Core core;
    core.cpus = read_cpus(sysfs, folder, {"thread_siblings_list", "core_cpus_list", "thread_siblings"})
                    .value_or(CpuSet{cpu}) &
                rest;
    core.cpus.add(cpu);
    if (!package_of.contains(cpu)) {
      const int package = static_cast<int>(sysfs.number(folder + "physical_package_id").value_or(0));
      package_of[cpu] = package;
      const auto siblings =
          read_cpus(sysfs, folder, {"core_siblings_list", "package_cpus_list", "core_siblings"});
      for (const int other : siblings.value_or(CpuSet()).to_vector()) package_of.emplace(other, package);
    }
    core.package = package_of[cpu];
    core.domain = own_domain(cpu, domains);
    rest -= core.cpus;
    cores.push_back(std::move(core));
  }
  return cores;
}

}  // namespace

Node read_static(const std::string& root) {
  const Sysfs sysfs(root);
  Node node;
  node.source = root == "/" || root.empty() ? "live" : root;
  const CpuSet cpus = online_cpus(sysfs);
  if (cpus.empty()) {
    throw Error("No CPUs found below " + root + (root.ends_with('/') ? "" : "/") +
                "sys/devices/system/cpu: is sysfs mounted there?");
  }
  node.domains = read_domains(sysfs, cpus);
  node.cores = read_cores(sysfs, cpus, node.domains);
  read_live_gpus(sysfs, node);
  return node;
}

void read_dynamic(Node& node, const std::string& root) {
  const Sysfs sysfs(root);
  node.host = sysfs.text("/proc/sys/kernel/hostname").value_or("");
  read_live_nics(sysfs, node);
  finish(node);
}

Node read_live(const std::string& root) {
  Node node = read_static(root);
  read_dynamic(node, root);
  return node;
}

}  // namespace muster::placement
