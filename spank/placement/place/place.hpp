// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "placement/topology/error.hpp"
#include "placement/topology/node.hpp"

namespace muster::placement {

/// A part of a GPU in MIG mode that CUDA treats as a device of its own.
struct MigInstance {
  std::string uuid;  ///< "MIG-…", as NVML and Slurm name it; may be empty
  PciAddress parent;
};

/// What a step requests from this node. "GPU" below means a MIG instance, or a GPU of `gpus` that is not the
/// parent of one. GPUs are ordered by the (parent's) PCI address, instances of one parent as given.
struct Request {
  int tasks = 1;                 ///< tasks of the step on this node
  int gpus_per_task = 0;         ///< 0: divide the allotted GPUs evenly
  int tasks_per_gpu = 1;         ///< tasks that may share one GPU (MPS, shards); 1: GPUs are not shared
  int cpus_per_task = 0;         ///< 0: as many cores as every task can get near to its GPUs; see place()
  CpuSet cpus;                   ///< allotted CPUs; empty: all of the node
  std::vector<PciAddress> gpus;  ///< allotted GPUs, in any order; empty: none
  std::vector<std::vector<PciAddress>> bound;  ///< GPUs by task, already assigned; empty: place() assigns
  std::vector<MigInstance> mig;                ///< allotted MIG instances; their parents need not be in gpus
  std::vector<int> memory;                     ///< NUMA domains that memory may come from; empty: all
  bool hardware_threads = false;               ///< false: one hardware thread of each core
};

struct PlacedGpu {
  PciAddress pci;    ///< a MIG instance has its parent's
  std::string uuid;  ///< "GPU-…" or "MIG-…"; empty: unknown
  int domain = -1;   ///< -1: unknown
  bool mig = false;  ///< a MIG instance: Slurm made it visible by its UUID, which must not change
};

struct PlacedNic {
  std::string label;  ///< for display: "mlx5_0", or a PCI address
  std::string name;   ///< RDMA device; empty: unknown
  int port = 1;
  NicKind kind = NicKind::unknown;
  Distance distance = Distance::unknown;  ///< to the nearest of the task's GPUs
};

/// One local task's share.
struct TaskPlacement {
  int local_rank = 0;
  std::vector<PlacedGpu> gpus;  ///< ascending by PCI address
  CpuSet cpus;                  ///< never empty
  int cores = 0;                ///< cores that `cpus` belong to
  std::vector<int> memory;  ///< preferred NUMA domains, the best first; never empty if the node has memory
  std::vector<PlacedNic> nics;       ///< empty: none usable, or no GPU
  std::vector<PlacedNic> node_nics;  ///< the NICs of all tasks of the step on this node, in the node's order
  Distance gpu_cpu = Distance::unknown;  ///< from the GPUs to the farthest of `cpus`: node, sys or unknown
  Distance gpu_nic = Distance::unknown;  ///< largest distance of a GPU to its NIC
  std::vector<std::string> reasons;      ///< for display, one line for each choice
};

/// The answer: tasks[i].local_rank == i.
struct Placement {
  std::vector<TaskPlacement> tasks;
  std::vector<std::string> warnings;  ///< one line each
  std::vector<std::string> notes;     ///< information such as idle cores; one line each
};

/// Assigns GPUs, CPUs, memory and NICs to the tasks. Pure: no system call, no environment, no clock; the same
/// input gives the same output. GPUs go to tasks in PCI order, each to exactly one task, unless the request
/// assigns them (bound). Consecutive tasks share a GPU only with tasks_per_gpu > 1 and more tasks than GPUs:
/// as evenly as possible, the first GPUs get one task more. 6 tasks on 4 GPUs are 0,0,1,1,2,3.
///
/// CPU sets are disjoint and of equal size.
/// - Without a requested size, each task gets as many cores as every task can get on its own GPUs' NUMA
///   domains, and no remote ones. All allotted cores are divided only if some task would get none, some GPU's
///   locality is unknown, or there are no GPUs.
/// - With a requested size, as many cores as possible come from the GPUs' own domains, and the rest so that
///   the sum of NUMA distances is smallest.
/// - A GPU that is near to several domains (Gpu::near_domains) counts each of them as its own; several such
///   GPUs start from different domains.
/// - With more tasks than CPUs, tasks share CPUs, and there is a warning.
///
/// Memory is preferred on the GPU's own domain, or on the nearest domain with CPUs and memory. If the GPU is
/// near to several domains, it is preferred on those that the task's cores belong to.
///
/// Each GPU gets the nearest usable NIC of the node. Equally near NICs are spread evenly over all GPUs of the
/// node, so that a GPU has the same NIC in every job. Throws Error if the tasks need more GPUs than allotted,
/// an allotted GPU is not on the node, or the request is invalid.
Placement place(const Node& node, const Request& request);

}  // namespace muster::placement
