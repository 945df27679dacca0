// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::spank {

/// srun sets this variable for the tasks when it has turned Slurm's GPU isolation off. encode_marker() in
/// isolation.hpp makes its value, VARIABLE:COUNT. srun passes variables with this prefix to the tasks under
/// --export=NONE too.
inline constexpr const char* isolation_marker = "SLURM_MUSTER_LIFTED";

}  // namespace muster::spank
