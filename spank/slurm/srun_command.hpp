// SPDX-License-Identifier: Apache-2.0
// What an srun is about to do, known before it has parsed its own options: from its command line and from the
// environment of the surrounding job. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "options.hpp"

namespace muster::spank {

/// Reads one variable of an environment; nullptr: not set.
using ReadVariable = std::function<const char*(const char* name)>;

struct SrunCommand {
  /// The words of --muster on the command line, else of the surrounding sbatch or salloc job.
  std::optional<OptionWords> words;
  int gpus_per_task = 0;  ///< 0: not requested, or not certain
  /// --gpu-bind or --tres-bind of the command line, in Slurm's notation: "gpu:map_gpu:1,0".
  std::optional<std::string> gpu_binding;
  bool may_bind_gpus = false;  ///< one of the two is on the command line, perhaps only as the program's
};

/// Except for may_bind_gpus, uses only words of the command line that are certainly srun's own and not its
/// program's. Skips invalid words: srun itself rejects them when it parses them.
SrunCommand read_srun_command(const std::vector<std::string>& command_line, const ReadVariable& read);

/// srun sets this variable for its step if inherits_cpu_binding(). srun passes variables with this prefix
/// under
/// --export=NONE too.
constexpr const char* inherited_cpu_binding = "SLURM_MUSTER_INHERITED_CPU_BIND";

/// srun sets this variable for its step to the --gpu-bind or --tres-bind of its command line. Slurm passes
/// that to the tasks only, after the step has been planned.
constexpr const char* step_gpu_binding = "SLURM_MUSTER_GPU_BIND";

/// Whether srun runs in a task of another step and finds in SLURM_CPU_BIND how Slurm bound that task, which
/// no user chose for the new step. False if --cpu-bind is on the command line, perhaps only as the program's.
bool inherits_cpu_binding(const std::vector<std::string>& command_line, const ReadVariable& read);

/// Parses a count as Slurm writes requests: "2", "a100:2", "a100:1,h100:1" → 2; 0 if there is none, or if it
/// is above most_counted.
inline constexpr int most_counted = 1 << 24;
int parse_count(const std::string& request);

}  // namespace muster::spank
