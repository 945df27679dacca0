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

/// What a step asks of this node. With MIG instances, "GPU" below means an instance, or a GPU of gpus that is
/// nobody's parent; they are ordered by (parent's) PCI address, those of one parent as given.
struct Request {
  int tasks = 1;                 ///< tasks of the step on this node
  int gpus_per_task = 0;         ///< 0: share the allotted GPUs out evenly
  int tasks_per_gpu = 1;         ///< tasks that may share one GPU (MPS, shards); 1: none are shared
  int cpus_per_task = 0;         ///< 0: as many cores as all tasks can have near to their GPUs; see place()
  CpuSet cpus;                   ///< allotted CPUs; empty: all of the node
  std::vector<PciAddress> gpus;  ///< allotted GPUs, in any order; empty: none
  std::vector<std::vector<PciAddress>> bound;  ///< of each task, where somebody chose; empty: place() deals
  std::vector<MigInstance> mig;                ///< allotted MIG instances; their parents need not be in gpus
  std::vector<int> memory;                     ///< NUMA domains that memory may come from; empty: all
  bool hardware_threads = false;               ///< false: one hardware thread of each core
};

struct PlacedGpu {
  PciAddress pci;    ///< of a MIG instance: its parent's
  std::string uuid;  ///< "GPU-…" or "MIG-…"; empty: unknown
  int domain = -1;   ///< -1: unknown
  bool mig = false;  ///< a MIG instance: Slurm made it visible by its UUID, and that is to stay so
};

struct PlacedNic {
  std::string label;  ///< for people: "mlx5_0", or a PCI address
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
  int cores = 0;                ///< cores that cpus lie on
  std::vector<int> memory;  ///< preferred NUMA domains, the best first; never empty if the node has memory
  std::vector<PlacedNic> nics;           ///< empty: none usable, or no GPU
  std::vector<PlacedNic> node_nics;      ///< those of all tasks of the step on this node, in the node's order
  Distance gpu_cpu = Distance::unknown;  ///< the farthest of cpus from the GPUs: node, sys or unknown
  Distance gpu_nic = Distance::unknown;  ///< the farthest GPU from its NIC
  std::vector<std::string> reasons;      ///< in words, one line for each choice
};

/// The answer: tasks[i].local_rank == i.
struct Placement {
  std::vector<TaskPlacement> tasks;
  std::vector<std::string> warnings;  ///< one line each
  std::vector<std::string> notes;     ///< nothing wrong but good to know, such as idle cores; one line each
};

/// Gives every allotted GPU, CPUs, memory and NICs to the tasks. Pure: no system call, no environment, no
/// clock; the same input gives the same output. GPUs go to tasks in PCI order, each to exactly one task,
/// unless the request says which task has which (bound). Only with tasks_per_gpu > 1 and more tasks than GPUs
/// do consecutive tasks share one, as evenly as possible, the first GPUs taking one more: 6 tasks on 4 GPUs
/// are 0,0,1,1,2,3.
///
/// CPU sets are disjoint and of equal size. Where no size is asked for, each task gets as many cores as all
/// tasks can have on their own GPUs' NUMA domains, and no remote ones; only if some task could have none, or
/// some GPU's locality is unknown, or there are no GPUs, all allotted cores are shared out. Where a size is
/// asked for, as many cores as possible come from the GPUs' own domains, then the rest so that the sum of
/// NUMA distances is smallest. A GPU that is near to several domains (Gpu::near_domains) counts each of them
/// as its own; with several GPUs like it they start from different ones. With more tasks than CPUs, CPUs are
/// shared, with a warning. Memory is preferred on the GPU's own domain, or on the nearest that has CPUs and
/// memory; of several that it is near to, on those where the cores are.
///
/// Each GPU gets the nearest usable NIC of the node; where several are equally near they are dealt out evenly
/// over all GPUs of the node, so that a GPU has the same NIC in every job. Throws Error if the tasks need
/// more GPUs than allotted, an allotted GPU is not on the node, or the request makes no sense.
Placement place(const Node& node, const Request& request);

}  // namespace muster::placement
