// SPDX-License-Identifier: Apache-2.0
#include "hooks/fail_task.hpp"

#include <unistd.h>

#include "log.hpp"

extern "C" {
#include <slurm/spank.h>
}

namespace muster::spank {

void give_up(spank_handle* spank, const char* why, bool strict, bool all_tasks_alike) noexcept {
  int local_rank = 0;
  spank_get_item(spank, S_TASK_ID, &local_rank);
  if (!all_tasks_alike || local_rank == 0) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    log_to_user("muster: %s: %s; %s", host, why,
                strict ? "the step ends, as --muster=strict asks" : "Slurm's own binding stays");
  }
  if (strict) end_task();
}

void end_task() noexcept {
  constexpr int exit_config = 78;  // EX_CONFIG of BSD sysexits.h, as libmuster's Fault::environment
  _exit(exit_config);
}

}  // namespace muster::spank
