// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "launcher/rank_processes.hpp"

namespace muster::bootstrap {

/// What is known about the ranks when the join's deadline passes.
struct JoinProgress {
  int size = 0;
  std::set<int> present;                                                ///< sent their hello
  std::set<int> connected;                                              ///< authenticated, but sent no hello
  std::vector<std::string> host_of;                                     ///< by rank, "" where unknown
  std::map<std::string, std::map<int, RankProcess>> processes_by_host;  ///< as a rank of that host saw them
  /// The launcher starts all ranks of a host together: if one was started, all were.
  bool tasks_start_together = false;
  std::set<int> unauthenticated;  ///< a connection claimed to be it, but did not prove that it has the key
};

/// "1 of 4 ranks missing after 60 s: rank 3 (host n1) started (pid 77, python3) but sent no hello". For each
/// missing rank: how far it got after it started, or that its host has no process of it, or that no rank of
/// its host joined, so that its processes are unknown. Names at most eight.
std::string describe_missing_ranks(const JoinProgress& progress, std::chrono::milliseconds waited);

/// The same for one rank: "rank 3 (host n1) started (pid 77, python3) but sent no hello".
std::string describe_rank_progress(const JoinProgress& progress, int rank);

}  // namespace muster::bootstrap
