// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/missing_ranks.hpp"

#include <fmt/format.h>

#include "deadline.hpp"

namespace muster::bootstrap {
namespace {

constexpr std::size_t named = 8;

// Of a rank whose host nobody knows: it is on none of those that were looked at. Nothing when a process there
// may be its own.
std::string nowhere(const JoinProgress& attendance) {
  std::string hosts;
  std::size_t count = 0;
  for (const auto& [host, processes] : attendance.seen_on_host) {
    if (processes.contains(unreadable)) return "";
    if (++count <= named) hosts += (hosts.empty() ? "" : ", ") + host;
  }
  if (count > named) hosts += fmt::format(" and {} more", count - named);
  return count == 0
             ? ""
             : fmt::format("has no process on {}: it never started, ended, or is on another host", hosts);
}

std::string came_how_far(const JoinProgress& attendance, int rank) {
  auto const index = static_cast<std::size_t>(rank);
  auto const& said = index < attendance.host_of.size() ? attendance.host_of[index] : std::string();
  if (auto const found = attendance.declined.find(rank); found != attendance.declined.end())
    return fmt::format("rank {} (host {}) cannot take part, it says: {}", rank,
                       said.empty() ? "unknown" : said, found->second);
  for (const auto& [host, processes] : attendance.seen_on_host) {
    if (auto const found = processes.find(rank); found != processes.end()) {
      return fmt::format("rank {} (host {}) started (pid {}, {}) but {}", rank, host, found->second.pid,
                         found->second.name,
                         attendance.connected.contains(rank) ? "is stuck before its hello" : "said no hello");
    }
  }
  auto const where = fmt::format("rank {} (host {})", rank, said.empty() ? "unknown" : said);
  if (attendance.connected.contains(rank)) return where + " connected but said no hello";
  if (auto const seen = attendance.seen_on_host.find(said); seen != attendance.seen_on_host.end()) {
    if (auto const held = seen->second.find(unreadable); held != seen->second.end())
      return fmt::format("{} said no hello; pid {} ({}) there, which may be its own, cannot be read now",
                         where, held->second.pid, held->second.name);
    return where + (attendance.started_together ? " has no process there any more: it ended without a hello"
                                                : " has no process there: it never started, or ended");
  }
  auto const none = said.empty() && !attendance.unproven.contains(rank) ? nowhere(attendance) : "";
  if (!none.empty()) return fmt::format("rank {} {}", rank, none);
  if (said.empty()) return where + " said no hello";
  return where + " said no hello, nor did any other rank of that host";
}

}  // namespace

std::string describe_rank_progress(const JoinProgress& attendance, int rank) {
  auto stage = came_how_far(attendance, rank);
  if (attendance.unproven.contains(rank) && !attendance.connected.contains(rank))
    stage +=
        "; who came for it was refused for want of this job's key: is MUSTER_KEY the same on every rank?";
  return stage;
}

std::string describe_missing_ranks(const JoinProgress& attendance, std::chrono::milliseconds waited) {
  std::string text;
  int missing = 0;
  for (int rank = 0; rank < attendance.size; ++rank) {
    if (attendance.present.contains(rank)) continue;
    if (++missing <= static_cast<int>(named))
      text += fmt::format("{}{}", missing > 1 ? "; " : "", describe_rank_progress(attendance, rank));
  }
  if (missing > static_cast<int>(named))
    text += fmt::format("; and {} more", missing - static_cast<int>(named));
  return fmt::format("join: {} of {} ranks missing after {}: {}", missing, attendance.size, text_of(waited),
                     missing > 0 ? text : "all said hello but did not meet");
}

}  // namespace muster::bootstrap
