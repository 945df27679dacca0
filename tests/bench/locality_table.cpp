// SPDX-License-Identifier: Apache-2.0
// Prints how local the tasks of a node would be with Slurm alone (a model, slurm_alone.hpp) and with Muster,
// as Markdown tables with a row for each topology file. Locality is computed here from the node's
// description, not taken from place()'s own result. Arguments: topology files, and folders that hold a copied
// /sys. Run by the script `locality`.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "placement/place/place.hpp"
#include "placement/topology/read.hpp"
#include "slurm_alone.hpp"
#include "spank/placement/machines.hpp"

namespace {

using muster::CpuSet;
using namespace muster::placement;
using namespace muster::bench;
namespace fs = std::filesystem;

struct Machine {
  std::string name;
  Node node;
  int tasks = 0;  // one per GPU
  int threads_per_core = 1;
  int domains = 0;      // with CPUs
  int equal_share = 0;  // cores per task; 0: fewer cores than tasks
};

Machine read(const fs::path& path) {
  Machine machine;
  machine.name = path.stem();
  machine.node = fs::is_directory(path) ? read_live(path) : read_topology_file(path);
  machine.tasks = static_cast<int>(machine.node.gpus.size());
  for (const auto& core : machine.node.cores)
    machine.threads_per_core = std::max(machine.threads_per_core, core.cpus.size());
  for (const auto& domain : machine.node.domains) machine.domains += domain.cpus.empty() ? 0 : 1;
  if (machine.tasks > 0) machine.equal_share = static_cast<int>(machine.node.cores.size()) / machine.tasks;
  return machine;
}

/// The number of local tasks, by resource.
struct Local {
  int cores = 0;    // tasks whose cores are all on their GPU's domain
  int memory = 0;   // tasks whose memory is all on their GPU's domain
  int nic = 0;      // tasks with one of the nearest NICs
  double part = 0;  // share of all tasks' cores that are on their GPU's domain
  bool has_nics = false;
};

Distance nic_distance(const Gpu& gpu, const Nic& nic) {
  return device_distance(gpu.path, gpu.domain, nic.path, nic.domain);
}

bool nearest(const Node& node, const Gpu& gpu, const Nic& nic) {
  return std::none_of(node.nics.begin(), node.nics.end(), [&](const Nic& other) {
    return other.usable && nic_distance(gpu, other) < nic_distance(gpu, nic);
  });
}

/// Counts the cores of one task, and returns whether all of them are on the GPU's domain.
bool count_cores(const Node& node, const Gpu& gpu, const CpuSet& cpus, int& near, int& all) {
  const NumaDomain* home = node.find_domain(gpu.domain);
  const int near_before = near, all_before = all;
  for (const auto& core : node.cores) {
    if (!core.cpus.intersects(cpus)) continue;
    ++all;
    near += home != nullptr && home->cpus.intersects(core.cpus) ? 1 : 0;
  }
  return near - near_before == all - all_before;
}

/// Task i gets GPU i and the first port; its memory is where it first touches it.
Local slurm_alone(const Machine& machine, const std::vector<CpuSet>& bound) {
  Local local;
  int near = 0, all = 0;
  const auto first = std::find_if(machine.node.nics.begin(), machine.node.nics.end(),
                                  [](const Nic& nic) { return nic.usable; });
  local.has_nics = first != machine.node.nics.end();
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const Gpu& gpu = machine.node.gpus[i];
    const bool cores = count_cores(machine.node, gpu, bound[i], near, all);
    local.cores += cores ? 1 : 0;
    local.memory += cores ? 1 : 0;
    local.nic += local.has_nics && nearest(machine.node, gpu, *first) ? 1 : 0;
  }
  local.part = all > 0 ? static_cast<double>(near) / all : 0;
  return local;
}

Local with_muster(const Machine& machine, const Placement& placement) {
  Local local;
  int near = 0, all = 0;
  for (const auto& task : placement.tasks) {
    const Gpu& gpu = *machine.node.find_gpu(task.gpus.at(0).pci);
    local.cores += count_cores(machine.node, gpu, task.cpus, near, all) ? 1 : 0;
    local.memory += task.memory == std::vector<int>{gpu.domain} ? 1 : 0;
    local.has_nics = local.has_nics || !task.nics.empty();
    local.nic +=
        !task.nics.empty() && std::all_of(task.nics.begin(), task.nics.end(), [&](const PlacedNic& placed) {
          return std::any_of(machine.node.nics.begin(), machine.node.nics.end(), [&](const Nic& nic) {
            return nic.label() == placed.label && nic.port == placed.port && nic.usable &&
                   nearest(machine.node, gpu, nic);
          });
        });
  }
  local.part = all > 0 ? static_cast<double>(near) / all : 0;
  return local;
}

Placement placed(const Machine& machine, int cores_per_task, const CpuSet& cpus) {
  Request request;
  request.tasks = machine.tasks;
  request.cpus_per_task = cores_per_task;
  request.cpus = cpus;
  for (const auto& gpu : machine.node.gpus) request.gpus.push_back(gpu.pci);
  return place(machine.node, request);
}

/// "4/8", and the share of cores if tasks are partly local.
std::string cores_cell(const Local& local, int tasks) {
  std::string cell = std::to_string(local.cores) + "/" + std::to_string(tasks);
  if (std::abs(local.part - static_cast<double>(local.cores) / tasks) > 0.005)
    cell += " (" + std::to_string(std::lround(local.part * 100)) + "% of cores)";
  return cell;
}

std::string cells(const Local& local, int tasks) {
  const auto of = [&](int count) { return std::to_string(count) + "/" + std::to_string(tasks); };
  return cores_cell(local, tasks) + " | " + of(local.memory) + " | " + (local.has_nics ? of(local.nic) : "–");
}

void whole_node_table(const std::vector<Machine>& machines) {
  std::printf(
      "Each task requests an equal share of the node's cores:\n\n"
      "| machine | GPUs | domains | cores a task | Slurm alone: cores | memory | first port | Muster: cores "
      "| memory | nearest port "
      "| Muster's own share | its cores |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const auto& machine : machines) {
    const auto& [name, node, tasks, threads, domains, share] = machine;
    const int cpus = std::max(1, share) * threads;
    const auto bound = bind_like_slurm(node, allocate_like_slurm(node, tasks, cpus), tasks, cpus);
    const auto own = placed(machine, 0, {});
    std::printf("| %s | %d | %d | %s | %s | %s | %d | %s |\n", name.c_str(), tasks, domains,
                share > 0 ? std::to_string(share).c_str() : "fewer cores than tasks",
                cells(slurm_alone(machine, bound), tasks).c_str(),
                cells(with_muster(machine, placed(machine, share, {})), tasks).c_str(), own.tasks[0].cores,
                cores_cell(with_muster(machine, own), tasks).c_str());
  }
}

void one_core_table(const std::vector<Machine>& machines) {
  std::printf(
      "\nOne core for each task. Slurm's controller picks the cores of a job that shares the node, and "
      "Muster can only deal out those; "
      "in a job that has the whole node (`--exclusive`) it picks them itself:\n\n"
      "| machine | GPUs | cores allotted | Slurm alone: cores | memory | Muster on the same cores: cores | "
      "memory "
      "| Muster, whole node: cores | memory |\n|---|---|---|---|---|---|---|---|---|\n");
  for (const auto& machine : machines) {
    if (machine.equal_share == 0) continue;
    const int tasks = machine.tasks, cpus = machine.threads_per_core;
    const CpuSet allotted = allocate_like_slurm(machine.node, tasks, cpus);
    const auto alone = slurm_alone(machine, bind_like_slurm(machine.node, allotted, tasks, cpus));
    const auto same = with_muster(machine, placed(machine, 1, allotted));
    const auto whole = with_muster(machine, placed(machine, 1, {}));
    std::printf("| %s | %d | %s | %d/%d | %d/%d | %d/%d | %d/%d | %d/%d | %d/%d |\n", machine.name.c_str(),
                tasks, allotted.to_list().c_str(), alone.cores, tasks, alone.memory, tasks, same.cores, tasks,
                same.memory, tasks, whole.cores, tasks, whole.memory, tasks);
  }
}

/// The median time of place() on a synthetic node of 8 GPUs and 256 CPUs, in milliseconds.
double place_milliseconds() {
  Node node = test::make_node({2, 4, 16, 2});
  for (int i = 0; i < 8; ++i) {
    test::add_gpu(node, i, 16 + 16 * i);
    test::add_nic(node, "mlx5_" + std::to_string(i), i, 17 + 16 * i, 16 + 16 * i);
  }
  Request request;
  request.tasks = 8;
  request.gpus = test::addresses(node);
  std::vector<double> times;
  for (int run = 0; run < 101; ++run) {
    const auto from = std::chrono::steady_clock::now();
    const auto placement = place(node, request);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - from;
    if (placement.tasks.size() == 8) times.push_back(took.count());
  }
  std::nth_element(times.begin(), times.begin() + 50, times.end());
  return times.at(50);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<Machine> machines;
    std::string without;
    for (int i = 1; i < argc; ++i) {
      Machine machine = read(argv[i]);
      if (machine.tasks > 0)
        machines.push_back(std::move(machine));
      else
        without += " " + machine.name;
    }
    whole_node_table(machines);
    one_core_table(machines);
    if (!without.empty()) std::printf("\nWithout a GPU, so without a row:%s.\n", without.c_str());
    std::printf("\n`place()` for 8 GPUs and 256 CPUs (synthetic, 8 domains, 101 runs): median %.3f ms.\n",
                place_milliseconds());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "locality_table: %s\n", error.what());
    return 1;
  }
}
