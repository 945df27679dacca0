// SPDX-License-Identifier: Apache-2.0
#include "placement/place/place_gpus.hpp"

#include <algorithm>
#include <iterator>

#include "placement/place/explain_placement.hpp"

namespace muster::placement {

namespace {

const Gpu& require_gpu(const Node& node, const PciAddress& pci) {
  if (const Gpu* gpu = node.find_gpu(pci)) return *gpu;
  std::string known;
  for (const auto& gpu : node.gpus) known += (known.empty() ? "" : ", ") + gpu.pci.to_string();
  throw Error("GPU " + pci.to_string() + " is not on " + host_name(node) + ", which has " +
              (known.empty() ? "no GPUs" : known) + ".");
}

/// The allotted devices in PCI order, each GPU once; a GPU in MIG mode only as its instances.
std::vector<Device> allotted_devices(const Node& node, const Request& request) {
  std::vector<Device> devices;
  for (const auto& instance : request.mig) {
    const bool already_listed = std::any_of(devices.begin(), devices.end(), [&](const Device& device) {
      return !instance.uuid.empty() && device.uuid == instance.uuid;
    });
    if (!already_listed) devices.push_back({&require_gpu(node, instance.parent), instance.uuid, true});
  }
  for (const auto& pci : request.gpus) {
    const Gpu& gpu = require_gpu(node, pci);
    const bool already_listed =
        std::any_of(devices.begin(), devices.end(), [&](const Device& device) { return device.gpu == &gpu; });
    if (!already_listed) devices.push_back({&gpu, gpu.uuid, false});
  }
  std::stable_sort(devices.begin(), devices.end(),
                   [](const Device& a, const Device& b) { return a.gpu->pci < b.gpu->pci; });
  return devices;
}

[[noreturn]] void throw_too_few_gpus(const Node& node, const Request& request, long available) {
  const long tasks = request.tasks;
  const long each = std::max(request.gpus_per_task, 1);
  const std::string sharing = request.tasks_per_gpu == 1
                                  ? ""
                                  : ", with up to " + plural(request.tasks_per_gpu, "task") + " to a GPU,";
  const long groups = (tasks + request.tasks_per_gpu - 1) / request.tasks_per_gpu;
  const std::string needed = plural(tasks, "task") + " with " + plural(each, "GPU") + " each" + sharing +
                             " need " + std::to_string(groups * each) + " GPUs, but the step has " +
                             std::to_string(available) + " on " + host_name(node) +
                             ": ask for more (--gpus-per-task, --gres), start fewer tasks per node";
  const long room = available / each;
  if (room == 0) throw Error(needed + ".");
  throw Error(needed +
              ", or let tasks share GPUs (tasks-per-gpu=" + std::to_string((tasks + room - 1) / room) + ").");
}

std::vector<std::vector<Device>> assign_as_bound(const Node& node, const Request& request,
                                                 const std::vector<Device>& devices) {
  if (request.bound.size() != static_cast<std::size_t>(request.tasks)) {
    throw Error("The GPUs of " + std::to_string(request.bound.size()) +
                " tasks are bound, but the step has " + plural(request.tasks, "task") + " on " +
                host_name(node) + ".");
  }
  std::vector<std::vector<Device>> assigned(request.bound.size());
  for (std::size_t task = 0; task < assigned.size(); ++task) {
    std::copy_if(devices.begin(), devices.end(), std::back_inserter(assigned[task]),
                 [&](const Device& device) {
                   const auto& own = request.bound[task];
                   return std::find(own.begin(), own.end(), device.gpu->pci) != own.end();
                 });
  }
  return assigned;
}

}  // namespace

std::vector<std::vector<Device>> assign_gpus(const Node& node, const Request& request,
                                             std::vector<std::string>& warnings) {
  const auto devices = allotted_devices(node, request);
  const auto available = static_cast<long>(devices.size());
  const long tasks = request.tasks;
  std::vector<std::vector<Device>> assigned(static_cast<std::size_t>(tasks));
  if (available == 0 && request.gpus_per_task == 0) return assigned;

  // All tasks of a group have the same devices. Without sharing, a group is one task.
  const long groups = std::min(tasks, available / std::max(request.gpus_per_task, 1));
  if (groups == 0 || tasks > groups * request.tasks_per_gpu) throw_too_few_gpus(node, request, available);
  if (!request.bound.empty()) return assign_as_bound(node, request, devices);
  const long used = request.gpus_per_task == 0 ? available : groups * request.gpus_per_task;
  if (used < available) {
    warnings.push_back(std::to_string(available - used) + " of " + plural(available, "allotted GPU") +
                       " are not used: " + plural(tasks, "task") + " with " +
                       plural(request.gpus_per_task, "GPU") + " each");
  }
  for (long task = 0; task < tasks; ++task) {
    const long small = tasks / groups;  // tasks in a group; the first tasks % groups have one more
    const long in_large = (tasks % groups) * (small + 1);
    const long group = task < in_large ? task / (small + 1) : tasks % groups + (task - in_large) / small;
    for (long i = used * group / groups; i < used * (group + 1) / groups; ++i)
      assigned[static_cast<std::size_t>(task)].push_back(devices[static_cast<std::size_t>(i)]);
  }
  return assigned;
}

}  // namespace muster::placement
