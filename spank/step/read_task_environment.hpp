// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "slurm/slurm_facts.hpp"
#include "step/task_environment.hpp"

namespace muster::spank {

/// In user_init, once per node: reads routes to other nodes, the administrator's profiles and NCCL's files.
/// profiles: the folder; empty: the built-in one. get_env: the job's environment. warnings: gets one line for
/// each profile that was left out, with the reason.
TaskEnvironment read_task_environment(const SlurmFacts& facts, const EnabledParts& parts,
                                      const std::string& profiles, const placement::GetEnv& get_env,
                                      std::vector<std::string>& warnings);

}  // namespace muster::spank
