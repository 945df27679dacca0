// SPDX-License-Identifier: Apache-2.0
#include "failure/stall_log.hpp"

#include "log.hpp"

namespace muster::control {
namespace {

constexpr std::size_t max_communicators = 1024;

}  // namespace

bool StallLog::is_new(const protocol::StalledOperation& report) {
  if (report.number == 0) return true;  // a point-to-point message has at most two reports
  if (last_reports_.size() > max_communicators) last_reports_.clear();
  auto& last = last_reports_[report.communicator];
  if (last.first == report.number && report.waited <= last.second) return false;
  last = {report.number, report.waited};
  return true;
}

// One stall makes many ranks wait, in different operations. A wait that began before the last warning belongs
// to the same stall; the longest one is printed.
void StallLog::warn(std::chrono::milliseconds waited, const std::string& text) {
  auto const now = Clock::now();
  if (waited <= last_printed_wait_ && now - waited < last_printed_) return;
  last_printed_ = now;
  last_printed_wait_ = waited;
  log::warn(text);
}

}  // namespace muster::control
