// SPDX-License-Identifier: Apache-2.0
#include "hooks/step_type.hpp"

#include <cstdint>

extern "C" {
#include <slurm/spank.h>
}

namespace muster::spank {

bool is_task_step(spank_handle* spank) noexcept {
  std::uint32_t step = 0;
  // SLURM_MAX_NORMAL_STEP_ID of slurm.h; the batch, extern and interactive steps have higher ids.
  constexpr std::uint32_t highest_ordinary = 0xfffffff0;
  return spank_get_item(spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS && step <= highest_ordinary;
}

}  // namespace muster::spank
