// SPDX-License-Identifier: Apache-2.0
#include "slurm/nvlink_domain.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "cpu_set/cpu_set.hpp"
#include "placement/topology/live/sysfs.hpp"

namespace muster::spank {

namespace {

constexpr const char* channel_folder = "/dev/nvidia-caps-imex-channels";

CpuSet open_channels(const std::string& root) {
  CpuSet channels = placement::Sysfs(root).numbers(channel_folder, "channel");
  for (const int channel : channels.to_vector())
    // access() checks the device cgroup, too.
    if (access((root + channel_folder + "/channel" + std::to_string(channel)).c_str(), R_OK) != 0)
      channels.remove(channel);
  return channels;
}

bool has_multi_node_nvlink(const placement::Node& node) {
  return std::any_of(node.gpus.begin(), node.gpus.end(), [](const placement::Gpu& gpu) {
    return gpu.model.find("GB200") != std::string::npos || gpu.model.find("GB300") != std::string::npos;
  });
}

/// The user may have set these variables, and they are printed to a terminal.
bool is_plain(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
  });
}

/// "block7" of "block7.n3" if the pattern is "block.node"; empty: Slurm's topology has no blocks.
std::string find_block(const std::string& address, const std::string& pattern) {
  std::istringstream names(address), kinds(pattern);
  std::string block;
  for (std::string name, kind; std::getline(kinds, kind, '.') && std::getline(names, name, '.');)
    if (kind.starts_with("block") && !name.empty()) block += (block.empty() ? "" : ".") + name;
  return is_plain(block) ? block : std::string();
}

}  // namespace

NvlinkDomain nvlink_domain(const placement::Node& node, int nodes,
                           const std::function<std::optional<std::string>(const std::string& name)>& variable,
                           const std::string& root) {
  NvlinkDomain domain;
  const auto channels = open_channels(root);
  if (!channels.empty())
    domain.notes.push_back("IMEX channel" + std::string(channels.size() > 1 ? "s " : " ") +
                           channels.to_list());
  const auto block = find_block(variable("SLURM_TOPOLOGY_ADDR").value_or(""),
                                variable("SLURM_TOPOLOGY_ADDR_PATTERN").value_or(""));
  if (!block.empty()) {
    const auto segment = variable("SLURM_JOB_SEGMENT_SIZE").value_or("");
    domain.notes.push_back(
        "block " + block + " of Slurm's topology" +
        (segment.empty() || !is_plain(segment) ? "" : ", in segments of " + segment + " nodes"));
  }
  if (nodes < 2 || !has_multi_node_nvlink(node)) return domain;
  for (const char* name : {"NCCL_CUMEM_ENABLE", "NCCL_MNNVL_ENABLE"})
    if (variable(name) == "0")
      domain.warnings.push_back(std::string(name) +
                                "=0 keeps NCCL from NVLink between nodes: it takes the network; unset it");
  if (channels.empty())
    domain.warnings.push_back("no IMEX channel can be opened (" + std::string(channel_folder) +
                              "/channelN): without one NCCL takes the network between nodes and not NVLink "
                              "(SwitchType=switch/nvidia_imex gives each job one)");
  return domain;
}

}  // namespace muster::spank
