// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "doctor/checks.hpp"
#include "doctor/gather_from_ranks.hpp"
#include "doctor/process_limits.hpp"

namespace muster::cli::doctor {

std::vector<Row> check_limits(DoctorContext& context) {
  Job& job = context.job;
  auto const all = gather_from_ranks(job, "doctor limits", all_ranks(job), read_limits());
  const auto& records = detail::JobInternals::records(job);
  LimitRequirements requirements;
  requirements.adapters = std::any_of(records.begin(), records.end(),
                                      [](const auto& record) { return !record.inventory.adapters.empty(); });
  requirements.shared_nccl = job.on_gpu() && job.size() > job.host_count();
  return judge_limits(job.roster(), all, requirements);
}

}  // namespace muster::cli::doctor
