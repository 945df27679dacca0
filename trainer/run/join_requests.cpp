// SPDX-License-Identifier: Apache-2.0
#include "run/join_requests.hpp"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <vector>

#include "config/elastic_range.hpp"
#include "run/prepare_run.hpp"

namespace muster {
namespace {

constexpr std::chrono::seconds grow_time{20};

}  // namespace

bool JoinRequests::has_any(const ActiveRanks& ranks, const Workload& workload) {
  if (job_.rank() != 0 || elastic_range(options_).least == 0) return false;
  if (!folder_) {
    folder_.emplace(options_.output, fingerprint(options_, workload),
                    joining_memory(options_, job_, ranks, workload));
  }
  return folder_->has_requests(job_.roster());
}

bool JoinRequests::accept(const ActiveRanks& ranks, Progress& progress) {
  if (folder_) ranks.announce_growth();
  bool has_grown = true;
  try {
    job_.grow(
        folder_ ? folder_->waiting() : 0,
        [this](const std::vector<std::string>& invitations) { folder_->invite(invitations); }, grow_time);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::lost_rank) throw;
    has_grown = false;
    if (folder_) progress.line(fmt::format("warning: {}", error.what()));
  }
  if (folder_) folder_->forget();
  if (has_grown) return true;
  if (folder_) ranks.withdraw_growth();
  job_.barrier("after a growth that failed");
  return false;
}

}  // namespace muster
