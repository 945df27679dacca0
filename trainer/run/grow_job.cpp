// SPDX-License-Identifier: Apache-2.0
#include "run/grow_job.hpp"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <vector>

namespace muster {
namespace {

constexpr std::chrono::seconds grow_time{20};

}  // namespace

bool grow_job(Job& job, const ActiveRanks& ranks, JoinFolder* folder, Progress& progress) {
  if (folder) ranks.announce_growth();
  bool has_grown = true;
  try {
    job.grow(
        folder ? folder->waiting() : 0,
        [folder](const std::vector<std::string>& invitations) { folder->invite(invitations); }, grow_time);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::lost_rank) throw;
    has_grown = false;
    if (folder) progress.line(fmt::format("warning: {}", error.what()));
  }
  if (folder) folder->forget();
  if (has_grown) return true;
  if (folder) ranks.withdraw_growth();
  job.barrier("after a growth that failed");
  return false;
}

}  // namespace muster
