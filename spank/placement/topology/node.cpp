// SPDX-License-Identifier: Apache-2.0
#include "placement/topology/node.hpp"

#include <algorithm>
#include <cctype>
#include <tuple>

#include "host_list/fold_host_list.hpp"

namespace muster::placement {

namespace {

/// Orders "mlx5_2" before "mlx5_10": runs of digits compare as numbers.
bool natural_less(const std::string& a, const std::string& b) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const std::size_t i_end = std::find_if_not(a.begin() + i, a.end(), is_digit) - a.begin();
      const std::size_t j_end = std::find_if_not(b.begin() + j, b.end(), is_digit) - b.begin();
      while (i < i_end && a[i] == '0') ++i;
      while (j < j_end && b[j] == '0') ++j;
      if (i_end - i != j_end - j) return i_end - i < j_end - j;
      if (const int order = a.compare(i, i_end - i, b, j, j_end - j); order != 0) return order < 0;
      i = i_end;
      j = j_end;
    } else if (a[i] != b[j]) {
      return a[i] < b[j];
    } else {
      ++i;
      ++j;
    }
  }
  if (a.size() - i != b.size() - j) return a.size() - i < b.size() - j;
  return a < b;  // equal except for leading zeros: any fixed order
}

bool nic_less(const Nic& a, const Nic& b) {
  if (a.pci != b.pci) return a.pci < b.pci;
  if (a.name != b.name) return natural_less(a.name, b.name);
  return a.port < b.port;
}

/// Sorts the domains by id, and their distance columns in the same order.
void sort_domains(std::vector<NumaDomain>& domains) {
  std::vector<std::size_t> order(domains.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return domains[a].id < domains[b].id; });
  std::vector<NumaDomain> sorted;
  for (const auto index : order) {
    NumaDomain domain = domains[index];
    if (domain.distances.size() == domains.size()) {
      for (std::size_t i = 0; i < order.size(); ++i) domain.distances[i] = domains[index].distances[order[i]];
    } else {
      domain.distances.clear();
    }
    sorted.push_back(std::move(domain));
  }
  domains = std::move(sorted);
}

}  // namespace

const char* to_string(Distance distance) {
  switch (distance) {
    case Distance::pix:
      return "PIX";
    case Distance::pxb:
      return "PXB";
    case Distance::phb:
      return "PHB";
    case Distance::node:
      return "NODE";
    case Distance::sys:
      return "SYS";
    case Distance::unknown:
      return "unknown";
  }
  return "unknown";
}

std::string Nic::label() const {
  if (!name.empty()) return name;
  return pci ? pci->to_string() : "unnamed";
}

CpuSet Node::cpus() const {
  CpuSet all;
  for (const auto& core : cores) all |= core.cpus;
  return all;
}

const NumaDomain* Node::find_domain(int id) const {
  for (const auto& domain : domains) {
    if (domain.id == id) return &domain;
  }
  return nullptr;
}

const Gpu* Node::find_gpu(const PciAddress& pci) const {
  for (const auto& gpu : gpus) {
    if (gpu.pci == pci) return &gpu;
  }
  return nullptr;
}

int Node::domain_distance(int from, int to) const {
  // As in ACPI's SLIT; without such a table Linux assumes 20 between domains.
  constexpr int local = 10;
  constexpr int remote = 20;
  const auto* row = find_domain(from);
  const auto* column = find_domain(to);
  if (row == nullptr || column == nullptr) return remote;
  const auto index = static_cast<std::size_t>(column - domains.data());
  if (index < row->distances.size()) return row->distances[index];
  return from == to ? local : remote;
}

Distance device_distance(const PciPath& a, const std::vector<int>& near_a, const PciPath& b,
                         const std::vector<int>& near_b) {
  const bool same_host_bridge = !a.host_bridge.empty() && a.host_bridge == b.host_bridge;
  std::size_t shared = 0;
  while (shared < a.bridges.size() && shared < b.bridges.size() && a.bridges[shared] == b.bridges[shared])
    ++shared;
  if (shared > 0 && (same_host_bridge || a.host_bridge.empty() || b.host_bridge.empty())) {
    // Below a shared bridge each device may have one more bridge of its own: the switch's port. Two or more
    // mean another switch.
    const bool one_switch = a.bridges.size() - shared <= 1 && b.bridges.size() - shared <= 1;
    return one_switch ? Distance::pix : Distance::pxb;
  }
  if (same_host_bridge) return Distance::phb;
  if (near_a.empty() || near_b.empty()) return Distance::unknown;
  const bool meet =
      std::find_first_of(near_a.begin(), near_a.end(), near_b.begin(), near_b.end()) != near_a.end();
  return meet ? Distance::node : Distance::sys;
}

Distance device_distance(const PciPath& a, int domain_a, const PciPath& b, int domain_b) {
  const auto near = [](int domain) { return domain < 0 ? std::vector<int>() : std::vector<int>{domain}; };
  return device_distance(a, near(domain_a), b, near(domain_b));
}

void set_near_domains(const Node& node, const std::vector<int>& near, int& domain,
                      std::vector<int>& near_domains) {
  domain = near.size() == 1 ? near.front() : -1;
  const auto processors = std::count_if(node.domains.begin(), node.domains.end(),
                                        [](const NumaDomain& other) { return other.has_processor(); });
  near_domains = near.size() > 1 && static_cast<long>(near.size()) < processors ? near : std::vector<int>();
}

void note_amd_gpus(Node& node, int amd_gpus) {
  if (amd_gpus == 0) return;
  node.notes.push_back(std::to_string(amd_gpus) + " AMD GPU" + (amd_gpus == 1 ? "" : "s") +
                       " left out: Muster places NVIDIA GPUs");
}

void note_hidden_cpus(Node& node) {
  std::vector<int> hidden;
  for (const auto& domain : node.domains)
    if (domain.cpus_hidden) hidden.push_back(domain.id);
  if (hidden.empty()) return;
  node.notes.push_back("the file leaves out the CPUs of NUMA domain" +
                       std::string(hidden.size() > 1 ? "s " : " ") + fold_numbers(hidden));
}

void finish(Node& node) {
  for (auto& core : node.cores) {
    if (core.domain < 0 && node.domains.size() == 1) core.domain = node.domains.front().id;
  }
  // Firmware may list a CPU in several domains or in none. A CPU belongs to the domain of its core.
  for (auto& domain : node.domains) {
    domain.cpus = {};
    for (const auto& core : node.cores) {
      if (core.domain == domain.id) domain.cpus |= core.cpus;
    }
  }
  std::stable_sort(node.cores.begin(), node.cores.end(), [](const Core& a, const Core& b) {
    return std::tuple(a.package, a.domain, a.cpus.first()) < std::tuple(b.package, b.domain, b.cpus.first());
  });
  sort_domains(node.domains);
  std::stable_sort(node.gpus.begin(), node.gpus.end(),
                   [](const Gpu& a, const Gpu& b) { return a.pci < b.pci; });
  std::stable_sort(node.nics.begin(), node.nics.end(), nic_less);
  for (auto& nic : node.nics) std::sort(nic.interfaces.begin(), nic.interfaces.end(), natural_less);
  choose_nics(node.nics);
  for (auto& gpu : node.gpus) std::sort(gpu.near_domains.begin(), gpu.near_domains.end());
  for (auto& nic : node.nics) std::sort(nic.near_domains.begin(), nic.near_domains.end());
}

}  // namespace muster::placement
