// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "placement/environment/step_ports.hpp"
#include "placement/place/place.hpp"

namespace muster::placement {

/// Who decided on a variable, the strongest first.
enum class Origin {
  user,       ///< it was set already
  user_file,  ///< NCCL_CONF_FILE or ~/.nccl.conf, which NCCL reads but the environment would shadow
  profile,    ///< a profile of the administrator's
  nccl_conf,  ///< /etc/nccl.conf, likewise shadowed by the environment
  derived,    ///< Muster
};

struct Variable {
  std::string name;
  std::string value;
  std::string reason;  ///< why it has this value, in words
  Origin origin = Origin::derived;
};

/// What the job, rather than the hardware, says about one task.
struct JobFacts {
  int rank =
      -1;  ///< global rank; -1: unknown, then no RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE is derived
  int world_size = 0;
  int local_rank = 0;
  int local_world_size = 0;
  std::string master_address;  ///< rank 0's node; empty: unknown, then nothing that names it is derived
  StepPorts ports;
  std::string tensorflow_cluster;  ///< of tensorflow_cluster(); empty: no TF_CONFIG
  std::string socket_interface;    ///< the interface that routes to the other nodes; empty: unknown
  std::string socket_reason;       ///< how it was found, in words
  std::string mpi_interface;  ///< the one of several that Open MPI's TCP is to take; empty: its own choice
  std::string fence;          ///< how the step's nodes meet in a PMIx fence; empty: as Slurm chooses
  std::vector<PciAddress> visible_gpus;  ///< GPUs that the task could open, in any order: CUDA's indices
                                         ///< count among them. Empty: the task's own GPUs only
  bool gpus_by_index = false;  ///< name GPUs by index, as scripts expect that ran without Muster; else by
                               ///< UUID where each has one
  std::optional<std::vector<PlacedGpu>>
      shown_gpus;     ///< what CUDA is to show the task, in this order; empty: what it shows already stays;
                      ///< nullopt: the task's own, but for MIG instances, whose names for CUDA Slurm has
  int first_own = 0;  ///< index among them of the first of the task's own
  std::optional<std::string> cuda_visible_devices;  ///< the task's CUDA_VISIBLE_DEVICES that stays as it is
};

/// The variables for one task, in a fixed order, without regard to what is set already. Pure.
std::vector<Variable> derive_environment(const TaskPlacement& task, const JobFacts& facts);

/// The value of "cluster" in TF_CONFIG, JSON: every rank's host and port. Empty if hosts and ports are not as
/// many as each other, or if TF_CONFIG would not fit into one string of an environment (the kernel's
/// MAX_ARG_STRLEN, 128 KiB with its name: about 6000 ranks).
std::string tensorflow_cluster(const std::vector<std::string>& hosts, const std::vector<int>& ports);

/// What a file says about a variable: a value, or (nullopt) that it is to be left alone.
struct Setting {
  std::string name;
  std::optional<std::string> value;
  std::string file;
};

/// What files say, each name once in each list.
struct Configured {
  std::vector<Setting> user_files;  ///< NCCL_CONF_FILE or ~/.nccl.conf
  std::vector<Setting> profiles;    ///< in the order in which they are to be set
  std::vector<Setting> nccl_conf;   ///< /etc/nccl.conf
};

/// What to do about an environment that exists.
struct EnvironmentChange {
  std::vector<Variable> set;  ///< to be set, MUSTER_SET and MUSTER_KEPT (comma-separated names) at the end
  std::vector<Variable>
      kept;  ///< decided by the user or an nccl.conf: name, the value found, and where it was found
  std::vector<Variable> left_out;  ///< not set, without value: what a profile says to leave alone
  std::vector<std::string>
      notes;  ///< one line for each profile's value that takes the place of /etc/nccl.conf's
};

/// The value of a variable in the task's environment; nullopt if it is not set (an empty value counts as
/// set).
using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

/// The variables that an outer step of ours set (MUSTER_SET) and nobody has changed since (MUSTER_SET_SUMS,
/// the values' checksums in the same order). Pure if lookup is.
std::set<std::string> set_by_outer_step(const Lookup& lookup);

/// Decides for each derived variable, and for each of a profile, whether it is set and to what: by the order
/// of Origin. What the environment has is the user's, except: MUSTER_* (ours), what set_by_outer_step(), and
/// the names in not_from_user (what Slurm itself put there, such as its CUDA_VISIBLE_DEVICES). MUSTER_SET
/// lists the names set, without MUSTER_*; MUSTER_KEPT those kept. Pure if lookup is.
EnvironmentChange decide_environment(const std::vector<Variable>& derived, const Lookup& lookup,
                                     const std::vector<std::string>& not_from_user = {},
                                     const Configured& configured = {});

}  // namespace muster::placement
