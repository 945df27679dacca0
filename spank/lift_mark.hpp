// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::spank {

/// Travels from srun to the tasks and says that isolation was lifted, as mark_of() of isolation.hpp writes
/// it: VARIABLE:COUNT. With this prefix srun hands it on under --export=NONE too.
inline constexpr const char* lift_mark = "SLURM_MUSTER_LIFTED";

}  // namespace muster::spank
