// SPDX-License-Identifier: Apache-2.0
#include "exec/process_gpus.hpp"

#include <algorithm>
#include <stdexcept>

#include "gpus/gpu_assignment.hpp"
#include "gpus/isolation.hpp"
#include "gpus/mig.hpp"
#include "text/printable.hpp"

namespace muster::spank {

namespace {

constexpr const char* visible_devices = "CUDA_VISIBLE_DEVICES";

[[noreturn]] void refuse(const std::string& list, const std::string& problem) {
  throw std::runtime_error(std::string(visible_devices) + "='" + printable(list.substr(0, 200)) + "' " +
                           problem);
}

/// Whether CUDA's indices depend on the speed of the GPUs, which this code does not know.
bool has_unknown_order(const std::vector<const placement::Gpu*>& gpus, const std::string& list,
                       const placement::GetEnv& get_env) {
  if (!are_numbers({list.substr(0, list.find(','))}) || get_env("CUDA_DEVICE_ORDER") == "PCI_BUS_ID")
    return false;
  return std::any_of(gpus.begin(), gpus.end(),
                     [&](const auto* gpu) { return gpu->model != gpus.front()->model; });
}

/// The openable GPUs that the list names.
std::vector<int> listed_gpus(const placement::Node& node, const std::vector<int>& openable,
                             const std::string& list, const placement::GetEnv& get_env) {
  if (list.empty() || list == "-1" || list == "NoDevFiles") return {};
  std::vector<StepGpu> names;
  std::vector<const placement::Gpu*> gpus;
  for (const auto& gpu : node.gpus) {
    if (std::find(openable.begin(), openable.end(), gpu.minor) == openable.end()) continue;
    names.push_back({gpu.minor, gpu.uuid});
    gpus.push_back(&gpu);
  }
  const auto assignment = find_gpu_assignment(names, openable, list, true);
  if (!assignment.set_by_slurm)
    refuse(list, "names a GPU that this process cannot open: it can open " + std::to_string(openable.size()) +
                     ", counted from 0 in PCI order, or named by GPU-UUID");
  if (has_unknown_order(gpus, list, get_env))
    refuse(list,
           "counts GPUs of different models in the order of their speed: set CUDA_DEVICE_ORDER=PCI_BUS_ID "
           "or name them by GPU-UUID");
  return assignment.minors.empty() ? openable : assignment.minors;
}

}  // namespace

ProcessGpus choose_process_gpus(const placement::Node& node, const std::vector<int>& openable, int local_size,
                                int tasks_per_gpu, const placement::GetEnv& get_env) {
  const auto list = get_env(visible_devices);
  if (!list || openable.empty()) return {openable, {}, false};
  auto listed = listed_gpus(node, openable, *list, get_env);
  if (listed.empty() || local_size == 1) return {std::move(listed), {}, false};
  const long places = static_cast<long>(listed.size()) * std::max(tasks_per_gpu, 1);
  if (places >= local_size) return {std::move(listed), {}, true};
  return {openable, std::move(listed), false};
}

GpuAccess find_openable_gpus(const placement::Node& node, const std::string& root) {
  const auto instances = read_mig_instances(root);
  std::vector<int> whole;
  for (const auto& gpu : node.gpus) {
    const bool split = std::any_of(instances.begin(), instances.end(),
                                   [&](const auto& one) { return one.gpu_minor == gpu.minor; });
    if (gpu.minor >= 0 && !split) whole.push_back(gpu.minor);
  }
  GpuAccess openable{allowed_minors(whole, root + "/dev"), 0};
  openable.instances = static_cast<int>(std::count_if(instances.begin(), instances.end(),
                                                      [&](const auto& one) { return can_open(one, root); }));
  return openable;
}

}  // namespace muster::spank
