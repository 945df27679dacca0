// SPDX-License-Identifier: Apache-2.0
// A model of Slurm's own placement of the tasks of one node, for comparison: the cores that the controller
// allots to a job with --gpus-per-task=1, and the cores that each task is bound to. It replaces a real Slurm,
// because these machines are not available.
//
// Allotment: as slurmctld 22.05.8 does it (select/cons_tres, CR_Core), measured with `scontrol show job -d`
// on nodes of 2 and 4 sockets, with and without Cores= in gres.conf, for jobs with at least as many tasks as
// sockets. (Without --gpus-per-task it would fill socket after socket.)
// Binding: task/affinity with the default distribution, block:cyclic, after lllp_distribution() and
// _task_layout_lllp_cyclic() of Slurm's src/plugins/task/affinity/dist_tasks.c.
//
// A socket is a package, as slurmd counts unless SlurmdParameters has numa_node_as_socket. The node is empty
// before the job. Pure.
#pragma once

#include <vector>

#include "placement/topology/node.hpp"

namespace muster::bench {

/// The CPUs (whole cores) allotted to a job of `tasks` tasks with --cpus-per-task=`cpus_per_task`, counted in
/// hardware threads as in Slurm. All of the node if that is too small: Slurm would refuse the job without
/// --overcommit.
CpuSet allocate_like_slurm(const placement::Node& node, int tasks, int cpus_per_task);

/// The CPUs that each task may run on. All of `allotted` if Slurm binds no task: unless the tasks' CPUs are
/// exactly the allotted sockets, cores or threads.
std::vector<CpuSet> bind_like_slurm(const placement::Node& node, const CpuSet& allotted, int tasks,
                                    int cpus_per_task);

}  // namespace muster::bench
