// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::spank {

/// The variables in which srun finds the --muster option of the surrounding job. salloc passes a plugin's
/// option under the first name; a batch script's environment has it under the second (Slurm 22.05).
inline constexpr const char* inherited_option_variables[] = {"_SLURM_SPANK_OPTION_muster_muster",
                                                             "SLURM_SPANK__SLURM_SPANK_OPTION_muster_muster"};

}  // namespace muster::spank
