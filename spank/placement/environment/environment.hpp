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

/// The source of a variable's value, highest precedence first.
enum class Origin {
  user,       ///< the environment had it already
  user_file,  ///< NCCL_CONF_FILE or ~/.nccl.conf: NCCL reads them, but a variable would shadow them
  profile,    ///< an administrator's profile
  nccl_conf,  ///< /etc/nccl.conf, which a variable would shadow too
  derived,    ///< Muster
};

struct Variable {
  std::string name;
  std::string value;
  std::string reason;  ///< why it has this value, for display
  Origin origin = Origin::derived;
};

/// What is known about one task from its job, not from the hardware.
struct JobFacts {
  /// Global rank; -1: unknown. RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE are then not derived.
  int rank = -1;
  int world_size = 0;
  int local_rank = 0;
  int local_world_size = 0;
  std::string master_address;  ///< rank 0's node; empty: unknown, and no variable with it is derived
  StepPorts ports;
  std::string tensorflow_cluster;  ///< from tensorflow_cluster(); empty: no TF_CONFIG
  std::string socket_interface;    ///< the interface that routes to the other nodes; empty: unknown
  std::string socket_reason;       ///< how it was found, for display
  std::string mpi_interface;       ///< the interface for Open MPI's TCP transport; empty: Open MPI chooses
  std::string fence;  ///< algorithm of the step's PMIx fences between nodes; empty: Slurm chooses
  /// GPUs that the task could open, in any order; CUDA's indices refer to them. Empty: the task's own GPUs
  /// only.
  std::vector<PciAddress> visible_gpus;
  /// Name GPUs by index, as scripts written without Muster expect; otherwise by UUID if each has one.
  bool gpus_by_index = false;
  /// The GPUs that CUDA shows the task, in this order. Empty: CUDA_VISIBLE_DEVICES stays as it is; nullopt:
  /// the task's own GPUs, unless they are MIG instances, for which Slurm sets the variable.
  std::optional<std::vector<PlacedGpu>> shown_gpus;
  int first_own = 0;  ///< index in shown_gpus of the first of the task's own GPUs
  std::optional<std::string> cuda_visible_devices;  ///< the task's CUDA_VISIBLE_DEVICES if it must not change
  int quota_cpus = 0;  ///< the task's share of a CPU quota, in whole CPUs; 0: no quota
};

/// The variables for one task, in a fixed order, without regard to existing variables. Pure.
std::vector<Variable> derive_environment(const TaskPlacement& task, const JobFacts& facts);

/// The JSON value of "cluster" in TF_CONFIG: every rank's host and port. Empty if the numbers of hosts and
/// ports differ, or if TF_CONFIG would exceed the kernel's limit for one variable (MAX_ARG_STRLEN, 128 KiB
/// with its name: about 6000 ranks).
std::string tensorflow_cluster(const std::vector<std::string>& hosts, const std::vector<int>& ports);

/// A file's setting for one variable: a value; nullopt: leave the variable alone.
struct Setting {
  std::string name;
  std::optional<std::string> value;
  std::string file;
};

/// The settings of files; each name occurs once in each list.
struct FileSettings {
  std::vector<Setting> user_files;  ///< NCCL_CONF_FILE or ~/.nccl.conf
  std::vector<Setting> profiles;    ///< in the order in which to set them
  std::vector<Setting> nccl_conf;   ///< /etc/nccl.conf
};

struct FoundSetting {
  const Setting* setting = nullptr;  ///< null: no file has one
  Origin origin = Origin::derived;
};

/// The setting that decides a variable which the environment does not have. Pure.
FoundSetting find_setting(const FileSettings& settings, const std::string& name);

/// The changes to an existing environment.
struct EnvironmentChange {
  /// Variables to set; MUSTER_SET and MUSTER_KEPT (comma-separated names) come last.
  std::vector<Variable> set;
  /// Variables that the user or an nccl.conf decides: name, the value found, and where it was found.
  std::vector<Variable> kept;
  std::vector<Variable> left_out;  ///< variables without value that a profile leaves alone
  std::vector<std::string> notes;  ///< one line for each profile's value that replaces one of /etc/nccl.conf
};

/// The value of a variable in the task's environment; nullopt if it is not set (an empty value counts as
/// set).
using GetEnv = std::function<std::optional<std::string>(const std::string& name)>;

/// The variables that Muster set for an outer step (MUSTER_SET) and that are unchanged since (MUSTER_SET_SUMS
/// holds the values' checksums in the same order). Pure if get_env is.
std::set<std::string> set_by_outer_step(const GetEnv& get_env);

/// Decides for each derived variable, and for each variable of a profile, whether to set it and to which
/// value, in the order of Origin. Existing variables count as the user's, except MUSTER_*, those of
/// set_by_outer_step(), and those in not_from_user (set by Slurm itself, such as CUDA_VISIBLE_DEVICES).
/// MUSTER_SET lists the names set, without MUSTER_*; MUSTER_KEPT the names kept. Pure if get_env is.
EnvironmentChange decide_environment(const std::vector<Variable>& derived, const GetEnv& get_env,
                                     const std::vector<std::string>& not_from_user = {},
                                     const FileSettings& file_settings = {});

}  // namespace muster::placement
