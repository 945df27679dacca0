// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace muster::spank {

/// What a plan's file is named after.
struct PlanFileName {
  std::string wanted;  ///< json=FILE; empty: the default name in the working directory
  std::uint32_t job = 0;
  std::uint32_t step = 0;
  std::string host;
  bool one_node = true;  ///< the step has no other node
};

/// Where a node's plan goes. In FILE %j is the job, %s the step, %N the host and %% a percent sign, as in srun's
/// own file names; of several nodes each has a file of its own, so where %N is missing the host is put before
/// the extension. An ending / means a folder. The default name is muster-JOB.STEP-HOST.json. Pure.
std::string plan_file_path(const PlanFileName& name);

/// The user's umask as Slurm hands it on in SLURM_UMASK, in octal digits; 0022 when it is not there or no umask.
mode_t user_umask(const std::optional<std::string>& slurm_umask);

/// Writes a file of mode 0666 & ~mask as the effective user: under a temporary name beside it, renamed when it
/// is complete. An existing regular file is replaced, a symbolic link is not followed.
/// @throws std::runtime_error with one line that names the file when it cannot be written, or when something
/// that is not a regular file has the name.
void write_plan_file(const std::string& path, const std::string& text, mode_t mask);

}  // namespace muster::spank
