// SPDX-License-Identifier: Apache-2.0
#include "gpus/step_gpus.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <system_error>

#include "gpus/gpu_binding.hpp"
#include "gpus/isolation.hpp"

namespace muster::spank {

namespace {

using placement::Node;
using placement::PciAddress;

std::size_t count_driver_gpus(const std::string& root) {
  std::error_code error;
  const std::filesystem::directory_iterator gpus(root + "/proc/driver/nvidia/gpus", error), end;
  return error ? 0 : static_cast<std::size_t>(std::distance(gpus, end));
}

// N of /dev/nvidiaN for each, as Slurm names GPUs that are not in MIG mode.
std::vector<int> parse_minors(const std::vector<std::string>& gpu_numbers) {
  std::vector<int> minors;
  for (const auto& name : gpu_numbers) {
    const bool is_number = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number || name.size() > 6)
      throw std::runtime_error("Slurm names the step's GPU '" + name +
                               "', which is not the N of a /dev/nvidiaN, and no GPU is in MIG mode");
    minors.push_back(std::stoi(name));
  }
  std::sort(minors.begin(), minors.end());
  return minors;
}

const placement::Gpu& find_gpu(const Node& node, int minor) {
  const auto gpu =
      std::find_if(node.gpus.begin(), node.gpus.end(), [&](const auto& one) { return one.minor == minor; });
  if (gpu == node.gpus.end())
    throw std::runtime_error("Slurm gave the step /dev/nvidia" + std::to_string(minor) +
                             ", but the NVIDIA driver lists no such GPU in /proc/driver/nvidia/gpus; is "
                             "the driver loaded, and does "
                             "gres.conf name the right files?");
  return *gpu;
}

constexpr const char* others_are_open =
    " (cgroup v2 hides the job's others only when the tasks start: request all of them for the step, or "
    "--muster=off; without ConstrainDevices=yes in cgroup.conf none are hidden)";

// Which instances of GPUs in MIG mode are the step's. Slurm does not name their files; they are those that
// may be opened, if their number is the one that Slurm reports.
void find_instances(const Node& node, const std::vector<MigInstance>& all, std::size_t count,
                    const std::string& root, StepGpus& gpus) {
  const auto split = [&](int minor) {
    return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.gpu_minor == minor; });
  };
  for (const auto& gpu : node.gpus)
    if (gpu.minor >= 0 && !split(gpu.minor) && allowed_minors({gpu.minor}, root + "/dev").size() == 1)
      gpus.minors.push_back(gpu.minor);
  std::copy_if(all.begin(), all.end(), std::back_inserter(gpus.instances),
               [&](const auto& one) { return can_open(one, root); });
  const std::size_t opened = gpus.instances.size() + gpus.minors.size();
  if (opened != count)
    throw std::runtime_error("Slurm gave the step " + std::to_string(count) +
                             " GPUs of a node in MIG mode, but " + std::to_string(gpus.instances.size()) +
                             " MIG instances and " + std::to_string(gpus.minors.size()) +
                             " whole GPUs may be opened, so it is not known which are the step's" +
                             (opened > count ? others_are_open : ""));
}

}  // namespace

StepGpus find_step_gpus(const Node& node, const std::vector<std::string>& names, const std::string& root) {
  StepGpus gpus;
  const auto instances = names.empty() ? std::vector<MigInstance>() : read_mig_instances(root);
  gpus.cuda_minors = find_cuda_minors(node, instances, root);
  if (instances.empty())
    gpus.minors = parse_minors(names);
  else
    find_instances(node, instances, names.size(), root, gpus);
  for (const int minor : gpus.minors) {
    const auto& gpu = find_gpu(node, minor);
    gpus.all.push_back({gpu.pci, gpu.uuid, gpu.domain});
  }
  for (const auto& one : gpus.instances) {
    const auto& parent = find_gpu(node, one.gpu_minor);
    gpus.all.push_back({parent.pci, one.label(), parent.domain, true});
  }
  return gpus;
}

std::vector<std::vector<PciAddress>> gpus_bound_by_user(const Node& node, const SlurmFacts& facts,
                                                        const StepGpus& gpus) {
  if (gpus.minors.empty() || !gpus.instances.empty()) return {};
  std::vector<int> gpu_numbers = gpus.minors;
  if (devices_confined(node, gpus.minors)) std::iota(gpu_numbers.begin(), gpu_numbers.end(), 0);
  const auto indices = parse_gpu_binding(facts.gpu_request.binding, facts.local_tasks, gpu_numbers);
  std::vector<std::vector<PciAddress>> bound(indices ? indices->size() : 0);
  for (std::size_t task = 0; task < bound.size(); ++task)
    for (const int index : (*indices)[task])
      bound[task].push_back(gpus.all[static_cast<std::size_t>(index)].pci);
  return bound;
}

std::vector<PciAddress> find_addresses(const Node& node, const std::vector<int>& minors) {
  std::vector<PciAddress> addresses;
  for (const int minor : minors) addresses.push_back(find_gpu(node, minor).pci);
  return addresses;
}

std::vector<int> find_cuda_minors(const Node& node, const std::vector<MigInstance>& instances,
                                  const std::string& root) {
  if (!instances.empty() || count_driver_gpus(root) != node.gpus.size()) return {};
  std::vector<int> minors;
  for (const auto& gpu : node.gpus) minors.push_back(gpu.minor);
  if (std::find(minors.begin(), minors.end(), -1) != minors.end()) return {};
  return minors;
}

bool are_numbers(const std::vector<std::string>& cuda_devices) {
  return std::all_of(cuda_devices.begin(), cuda_devices.end(), [](const std::string& name) {
    return name.find_first_not_of("0123456789") == std::string::npos;
  });
}

}  // namespace muster::spank
