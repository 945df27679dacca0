// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::spank {

/// The variables in which an srun finds the --muster of the job around it: salloc hands a plugin's option on
/// by the first name, the batch script's environment has it under the second (Slurm 22.05).
inline constexpr const char* handed_on[] = {"_SLURM_SPANK_OPTION_muster_muster",
                                            "SLURM_SPANK__SLURM_SPANK_OPTION_muster_muster"};

}  // namespace muster::spank
