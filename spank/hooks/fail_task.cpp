// SPDX-License-Identifier: Apache-2.0
#include "hooks/fail_task.hpp"

#include <unistd.h>

#include "log.hpp"

extern "C" {
#include <slurm/spank.h>
}

namespace muster::spank {

void fail_task(spank_handle* spank, const char* why, bool strict, bool same_for_all_tasks) noexcept {
  int local_rank = 0;
  spank_get_item(spank, S_TASK_ID, &local_rank);
  if (!same_for_all_tasks || local_rank == 0) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    log_to_user("muster: %s: %s; %s", host, why,
                strict ? "the step ends, as --muster=strict asks" : "Slurm's own binding stays");
  }
  if (strict) exit_task();
}

void exit_task() noexcept {
  constexpr int exit_config = 78;  // EX_CONFIG of BSD sysexits.h, as libmuster's ErrorCode::environment
  _exit(exit_config);
}

}  // namespace muster::spank
