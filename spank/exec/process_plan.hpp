// SPDX-License-Identifier: Apache-2.0
// A process placed where there is no SPANK: as the plugin would place the same task of a step. All processes
// of one launcher on a host make the same plan, each by itself.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "options.hpp"
#include "step/step.hpp"

namespace muster::spank {

/// What a process is to share with the other processes of its launcher on this host.
struct ProcessRequest {
  int local_rank = 0;
  int local_size = 1;
  int rank = -1;            ///< of the whole job; -1: unknown
  int world_size = 0;       ///< 0: unknown
  int cpus_per_task = 0;    ///< 0: as many cores as each process can have near its GPUs
  CpuSet cpus;              ///< of all these processes; empty: all of the node
  std::vector<int> memory;  ///< NUMA domains that memory may come from; empty: all
  std::string root = "/";   ///< of /sys, /proc and /dev
};

struct ProcessPlan {
  Step step;
  placement::TaskPlacement task;        ///< this process's
  placement::EnvironmentChange change;  ///< its variables
  std::set<std::string> stale;          ///< variables of an outer step, to remove
  std::vector<std::string> warnings;    ///< beside those of step.placement; one line each
};

/// get_env: this process's environment.
/// @throws std::exception with one line: the problem and the remedy.
ProcessPlan plan_process(const ProcessRequest& request, const StepOptions& options,
                         const placement::GetEnv& get_env);

/// Binds the calling process and changes its environment. Returns one line for each part that failed.
std::vector<std::string> apply_plan(const ProcessPlan& plan);

}  // namespace muster::spank
