// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "placement/place.hpp"

namespace muster::placement {

struct Variable {
  std::string name;
  std::string value;
  std::string reason;  ///< why it has this value, in words
};

/// What the job, rather than the hardware, says about one task.
struct JobFacts {
  int rank =
      -1;  ///< global rank; -1: unknown, then no RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE is derived
  int world_size = 0;
  int local_rank = 0;
  int local_world_size = 0;
  std::string master_address;  ///< rank 0's node; empty: no MASTER_ADDR, no MASTER_PORT
  int master_port = 0;
  std::string socket_interface;  ///< the interface that routes to the other nodes; empty: unknown
  std::vector<PciAddress>
      visible_gpus;  ///< GPUs that the task could open, in any order: CUDA's indices count among them
                     ///< when a UUID is unknown. Empty: the task's own GPUs only
};

/// The variables for one task, in a fixed order, without regard to what is set already. Pure.
std::vector<Variable> derive_environment(const TaskPlacement& task, const JobFacts& facts);

/// What to do about an environment that exists.
struct EnvironmentChange {
  std::vector<Variable> set;   ///< to be set, MUSTER_SET and MUSTER_KEPT (comma-separated names) at the end
  std::vector<Variable> kept;  ///< found set: name, the value found, and why it was left alone
};

/// The value of a variable in the task's environment; nullopt if it is not set (an empty value counts as
/// set).
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

/// Decides for each derived variable whether it is set. One that is set already is kept, except: MUSTER_*
/// (ours), a name that the inherited MUSTER_SET lists (an outer step of ours set it), and the names in
/// not_from_user (what Slurm itself put there, such as its CUDA_VISIBLE_DEVICES). MUSTER_SET lists the names
/// set, without MUSTER_*. Pure if lookup is.
EnvironmentChange decide_environment(const std::vector<Variable>& derived, const Lookup& lookup,
                                     const std::vector<std::string>& not_from_user = {});

/// A TCP port for MASTER_PORT, the same on every node of a step: 10000 … 29999, below the ephemeral ports
/// (32768 …) and above the well-known ones. Consecutive jobs and consecutive steps of a job get different
/// ports. Pure.
int master_port(std::uint32_t uid, std::uint32_t job_id, std::uint32_t step_id);

}  // namespace muster::placement
