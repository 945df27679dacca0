// SPDX-License-Identifier: Apache-2.0
// What an srun is about to do, told before it has read its own options: from its command line and from the
// environment of the job around it. Pure.
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
  std::optional<Words>
      words;              ///< --muster's, of the command line, else of the sbatch or salloc job around it
  int gpus_per_task = 0;  ///< 0: not asked for, or not to be told for certain
  /// --gpu-bind or --tres-bind of the command line, as Slurm writes them: "gpu:map_gpu:1,0".
  std::optional<std::string> gpu_binding;
};

/// Only words of the command line that are surely srun's own and not its program's are used. Words that make
/// no sense are passed over: srun refuses them itself when it comes to them.
SrunCommand read_srun_command(const std::vector<std::string>& command_line, const ReadVariable& read);

/// Set by srun for its step where inherits_cpu_binding(). With this prefix srun hands it on under
/// --export=NONE too.
constexpr const char* inherited_cpu_binding = "SLURM_MUSTER_INHERITED_CPU_BIND";

/// Set by srun for its step to what --gpu-bind or --tres-bind say on its command line: Slurm says it to the
/// tasks only, when the step is planned already.
constexpr const char* step_gpu_binding = "SLURM_MUSTER_GPU_BIND";

/// Whether srun runs in a task of another step and finds in SLURM_CPU_BIND how Slurm bound that task, which
/// is nobody's choice for the new step.
bool inherits_cpu_binding(const std::vector<std::string>& command_line, const ReadVariable& read);

/// A count as Slurm writes requests: "2", "a100:2", "a100:1,h100:1" → 2; 0 when there is none, or when it is
/// above most_counted.
inline constexpr int most_counted = 1 << 24;
int count_of(const std::string& request);

}  // namespace muster::spank
