// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstring>
#include <type_traits>

#include "control/plane.hpp"
#include "doctor/checks.hpp"
#include "doctor/process_limits.hpp"
#include "job/job_inside.hpp"

namespace muster::cli::doctor {

static_assert(std::is_trivially_copyable_v<ProcessLimits>);

std::vector<Row> check_limits(Patient& patient) {
  Job& job = patient.job;
  auto const mine = read_limits();
  std::vector<ProcessLimits> all{mine};
  if (auto* const plane = detail::JobInside::plane(job)) {
    control::Blob blob(sizeof mine);
    std::memcpy(blob.data(), &mine, sizeof mine);
    std::vector<int> everyone;
    for (const auto& hello : job.roster()) everyone.push_back(hello.rank);
    all.clear();
    for (const auto& one : plane->gather("doctor limits", everyone, blob, std::chrono::seconds(60))) {
      ProcessLimits theirs;
      if (one.size() == sizeof theirs) std::memcpy(&theirs, one.data(), sizeof theirs);
      all.push_back(theirs);
    }
  }
  const auto& records = detail::JobInside::records(job);
  LimitsWish wish;
  wish.adapters = std::any_of(records.begin(), records.end(),
                              [](const auto& record) { return !record.surroundings.adapters.empty(); });
  wish.shared_nccl = job.on_gpu() && job.size() > job.host_count();
  return judge_limits(job.roster(), all, wish);
}

}  // namespace muster::cli::doctor
