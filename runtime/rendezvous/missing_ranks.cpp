// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/missing_ranks.hpp"

#include <fmt/format.h>

#include "deadline.hpp"

namespace muster::bootstrap {
namespace {

constexpr std::size_t max_named = 8;

// For a rank whose host is unknown: it has no process on the hosts that were scanned. Empty when an
// unreadable process there may be its own.
std::string describe_absence(const JoinProgress& progress) {
  std::string hosts;
  std::size_t count = 0;
  for (const auto& [host, processes] : progress.processes_by_host) {
    if (processes.contains(unreadable)) return "";
    if (++count <= max_named) hosts += (hosts.empty() ? "" : ", ") + host;
  }
  if (count > max_named) hosts += fmt::format(" and {} more", count - max_named);
  return count == 0
             ? ""
             : fmt::format("has no process on {}: it never started, ended, or is on another host", hosts);
}

std::string describe_stage(const JoinProgress& progress, int rank) {
  auto const index = static_cast<std::size_t>(rank);
  auto const& expected_host = index < progress.host_of.size() ? progress.host_of[index] : std::string();
  for (const auto& [host, processes] : progress.processes_by_host) {
    if (auto const found = processes.find(rank); found != processes.end()) {
      return fmt::format("rank {} (host {}) started (pid {}, {}) but {}", rank, host, found->second.pid,
                         found->second.name,
                         progress.connected.contains(rank) ? "is stuck before its hello" : "sent no hello");
    }
  }
  auto const where =
      fmt::format("rank {} (host {})", rank, expected_host.empty() ? "unknown" : expected_host);
  if (progress.connected.contains(rank)) return where + " connected but sent no hello";
  if (auto const scanned = progress.processes_by_host.find(expected_host);
      scanned != progress.processes_by_host.end()) {
    if (auto const blocked = scanned->second.find(unreadable); blocked != scanned->second.end())
      return fmt::format("{} sent no hello; pid {} ({}) there, which may be its own, cannot be read now",
                         where, blocked->second.pid, blocked->second.name);
    return where + (progress.tasks_start_together ? " has no process there any more: it ended without a hello"
                                                  : " has no process there: it never started, or ended");
  }
  auto const absence = expected_host.empty() ? describe_absence(progress) : "";
  if (!absence.empty()) return fmt::format("rank {} {}", rank, absence);
  if (expected_host.empty()) return where + " sent no hello";
  return where + " sent no hello, nor did any other rank of that host";
}

}  // namespace

std::string describe_rank_progress(const JoinProgress& progress, int rank) {
  auto stage = describe_stage(progress, rank);
  if (progress.unauthenticated.contains(rank) && !progress.connected.contains(rank))
    stage +=
        "; a connection that claimed to be it was refused because it did not prove that it has this job's "
        "key: if it was that rank's, give every rank the same MUSTER_KEY";
  return stage;
}

std::string describe_missing_ranks(const JoinProgress& progress, std::chrono::milliseconds waited) {
  std::string text;
  int missing = 0;
  for (int rank = 0; rank < progress.size; ++rank) {
    if (progress.present.contains(rank)) continue;
    if (++missing <= static_cast<int>(max_named))
      text += fmt::format("{}{}", missing > 1 ? "; " : "", describe_rank_progress(progress, rank));
  }
  if (missing > static_cast<int>(max_named))
    text += fmt::format("; and {} more", missing - static_cast<int>(max_named));
  return fmt::format("join: {} of {} ranks missing after {}: {}", missing, progress.size,
                     format_duration(waited), missing > 0 ? text : "all sent a hello but did not meet");
}

}  // namespace muster::bootstrap
