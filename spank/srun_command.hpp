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
};

/// Only words of the command line that are surely srun's own and not its program's are used. Words that make
/// no sense are passed over: srun refuses them itself when it comes to them.
SrunCommand read_srun_command(const std::vector<std::string>& command_line, const ReadVariable& read);

/// A count as Slurm writes requests: "2", "a100:2", "a100:1,h100:1" → 2; 0 when there is none.
int count_of(const std::string& request);

}  // namespace muster::spank
