// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "failure/reporter_check.hpp"
#include "muster/job.hpp"
#include "transport/handshake.hpp"
#include "transport/local_listener.hpp"

namespace muster::control {

/// Settings of a rank's control plane.
struct ControlPlaneOptions {
  std::vector<Hello> roster;
  std::vector<int> host_leaders;  ///< by rank: its host leader; empty: every rank is its own leader
  /// A process that sends nothing for this long counts as lost; 0: never.
  std::chrono::milliseconds heartbeat_timeout{10'000};
  std::chrono::milliseconds stall_warning{0};  ///< warn when an operation takes this long; 0: never
  /// Ends this process when its program does not observe the job's failure for this long; 0: never.
  std::chrono::milliseconds abort_grace{0};
  /// The launcher ends all ranks as soon as one is lost, perhaps before the program prints the loss: the
  /// control thread prints it at once.
  bool prints_losses = false;
  /// Called on the control thread, which it may hold for the given time. Empty: never known.
  ReporterCheck::Query query_processes{};
  /// By rank: where a host leader accepts the ranks of its host. Only those of leaders are used.
  std::vector<std::string> local_sockets{};
  /// With which the ranks of a host connect to its leader.
  Key host_key{};
  /// This rank's, if it leads others. The control plane takes its socket.
  std::shared_ptr<LocalListener> listener{};
  /// Of a job that goes on after a loss or a growth: ranks can end before they have connected. Each rank then
  /// looks whether its host leader and rank 0 have ended while it connects, and rank 0 whether any rank has,
  /// until stop_ended_rank_watch().
  bool watches_ended_ranks = false;
  /// pause_watchdog() from the start.
  bool watchdog_paused = false;
  /// A rank that cannot connect to its leader calls this before it tries again. It may throw.
  std::function<void()> before_retry{};
  /// The program goes on without lost ranks (JoinOptions::tolerate_rank_loss).
  bool tolerates_losses = false;

  /// The other ranks of which `leader` is the host leader.
  std::vector<int> ranks_led_by(int leader) const {
    std::vector<int> ranks;
    for (int r = 0; r < static_cast<int>(host_leaders.size()); ++r)
      if (r != leader && host_leaders[static_cast<std::size_t>(r)] == leader) ranks.push_back(r);
    return ranks;
  }
};

/// Without host_leaders, every rank is its own leader.
inline ControlPlaneOptions with_default_leaders(ControlPlaneOptions options) {
  if (!options.host_leaders.empty()) return options;
  options.host_leaders.resize(options.roster.size());
  std::iota(options.host_leaders.begin(), options.host_leaders.end(), 0);
  return options;
}

}  // namespace muster::control
