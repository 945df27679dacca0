// SPDX-License-Identifier: Apache-2.0
#include "placement/report/gpu_nic_links.hpp"

#include <algorithm>

namespace muster::placement {

namespace {

GpuNicLink make_link(const Gpu* gpu, const Nic* nic) {
  return {gpu, nic, device_distance(gpu->path, gpu->domain, nic->path, nic->domain)};
}

const GpuNicLink& shortest(const std::vector<GpuNicLink>& links) {
  return *std::min_element(links.begin(), links.end(),
                           [](const auto& a, const auto& b) { return a.distance < b.distance; });
}

}  // namespace

std::vector<GpuNicLink> find_links(const Node& node, const TaskPlacement& task) {
  std::vector<const Gpu*> gpus;
  std::vector<const Nic*> nics;
  for (const auto& placed : task.gpus)
    if (const auto* gpu = node.find_gpu(placed.pci)) gpus.push_back(gpu);
  for (const auto& placed : task.nics)
    for (const auto& nic : node.nics)
      if (nic.label() == placed.label && nic.port == placed.port) nics.push_back(&nic);
  std::vector<GpuNicLink> links;
  if (gpus.empty() || nics.empty()) return links;
  const auto add = [&](const GpuNicLink& link) {
    if (std::none_of(links.begin(), links.end(),
                     [&](const auto& known) { return known.gpu == link.gpu && known.nic == link.nic; }))
      links.push_back(link);
  };
  for (const auto* gpu : gpus) {
    std::vector<GpuNicLink> of_gpu;
    for (const auto* nic : nics) of_gpu.push_back(make_link(gpu, nic));
    add(shortest(of_gpu));
  }
  for (const auto* nic : nics) {
    if (std::any_of(links.begin(), links.end(), [&](const auto& known) { return known.nic == nic; }))
      continue;
    std::vector<GpuNicLink> of_nic;
    for (const auto* gpu : gpus) of_nic.push_back(make_link(gpu, nic));
    add(shortest(of_nic));
  }
  return links;
}

}  // namespace muster::placement
