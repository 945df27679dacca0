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
  std::set<int> present;                                           ///< said their hello
  std::set<int> connected;                                         ///< proved themselves, but said no hello
  std::vector<std::string> host_of;                                ///< by rank, "" where unknown
  std::map<std::string, std::map<int, RankProcess>> seen_on_host;  ///< as ranks of that host see it
  bool started_together =
      false;               ///< the launcher starts a host's ranks together: one was there when others are
  std::set<int> unproven;  ///< somebody came for it, without proof that it has the job's key
  std::map<int, std::string> declined;  ///< why a rank said, without proof, that it cannot take part
};

/// "1 of 4 ranks missing after 60 s: rank 3 (host n1) started (pid 77, python3) but said no hello". Of each
/// missing rank: that it started and how far it came, that nothing of it runs on its host, or that no rank of
/// its host came and whether its processes are there is not known. Names eight at most.
std::string describe_missing_ranks(const JoinProgress& attendance, std::chrono::milliseconds waited);

/// The same of one rank: "rank 3 (host n1) started (pid 77, python3) but said no hello".
std::string describe_rank_progress(const JoinProgress& attendance, int rank);

}  // namespace muster::bootstrap
