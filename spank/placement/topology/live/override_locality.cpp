// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "host_list/fold_host_list.hpp"
#include "placement/topology/read.hpp"

namespace muster::placement {

namespace {

/// A list for a note: "GPU 0001:00:00.0, GPU 0002:00:00.0".
class DeviceList {
 public:
  void add(const std::string& kind, const PciAddress& pci) {
    if (!text_.empty()) text_ += ", ";
    text_ += kind;
    text_ += pci.to_string();
  }
  void note(Node& node, const std::string& before, const std::string& after) const {
    if (!text_.empty()) node.notes.push_back(before + text_ + after);
  }

 private:
  std::string text_;
};

template <typename Device>
void copy_locality(const Node& live, const Device& given, Device& device, std::vector<int>& unknown_domains) {
  device.path = given.path;
  if (live.find_domain(given.domain) != nullptr) {
    device.domain = given.domain;
    device.near_domains.clear();
  } else if (given.domain >= 0) {
    unknown_domains.push_back(given.domain);
  }
}

const Nic* find_nic(const Node& node, const std::optional<PciAddress>& pci) {
  const auto at =
      std::find_if(node.nics.begin(), node.nics.end(), [&](const Nic& nic) { return pci && nic.pci == pci; });
  return at == node.nics.end() ? nullptr : &*at;
}

}  // namespace

void override_locality(Node& live, const Node& given) {
  DeviceList not_listed, not_found;
  std::vector<int> unknown_domains;
  for (auto& gpu : live.gpus) {
    if (const Gpu* same = given.find_gpu(gpu.pci)) {
      copy_locality(live, *same, gpu, unknown_domains);
    } else {
      not_listed.add("GPU ", gpu.pci);
    }
  }
  for (auto& nic : live.nics) {
    if (const Nic* same = find_nic(given, nic.pci)) {
      copy_locality(live, *same, nic, unknown_domains);
    } else if (nic.usable && nic.pci) {
      not_listed.add("NIC ", *nic.pci);
    }
  }
  const auto is_here = [&](const PciAddress& pci) {
    return live.find_gpu(pci) != nullptr || find_nic(live, pci) != nullptr;
  };
  for (const auto& gpu : given.gpus) {
    if (!is_here(gpu.pci)) not_found.add(find_nic(given, gpu.pci) != nullptr ? "device " : "GPU ", gpu.pci);
  }
  for (const auto& nic : given.nics) {
    if (nic.pci && !is_here(*nic.pci) && given.find_gpu(*nic.pci) == nullptr) not_found.add("NIC ", *nic.pci);
  }
  live.notes.push_back("locality of GPUs and NICs is taken from " + given.source);
  not_listed.note(live, given.source + " does not name ", ": the live locality is kept");
  not_found.note(live, given.source + " names ", ", not found on this machine");
  if (!unknown_domains.empty()) {
    live.notes.push_back(given.source +
                         " names NUMA domains that this machine lacks: " + fold_numbers(unknown_domains));
  }
  finish(live);
}

}  // namespace muster::placement
