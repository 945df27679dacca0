// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "roster/join_record.hpp"

namespace muster::bootstrap {

/// The host of each rank, derived from the roster alone, so that all ranks agree.
struct HostMap {
  std::vector<int> host_of;  ///< by rank: index of its host, hosts in order of their lowest rank
  int hosts = 0;
};

/// Ranks share a host when host name and boot id are equal. Fills Hello::local_rank.
HostMap map_ranks_to_hosts(std::vector<Hello>& roster);

/// By rank: the leader of its host on the control plane, its lowest rank. Ranks have one leader when they
/// share host, kernel and network namespace.
std::vector<int> host_leaders(const std::vector<JoinRecord>& records);

/// The addresses of `other` as `self` should try them: loopback first where both share kernel and network
/// namespace.
std::vector<std::string> addresses_to_try(const JoinRecord& other, const JoinRecord& self);

/// "rank 3 (host node2, GPU 0000:3b:00.0)".
std::string describe_rank(const Hello& hello);

/// The same for several ranks, ascending, at most `shown` of them by name: "rank 1 (host a), rank 2 (host a)
/// and 6 more".
std::string describe_ranks(const std::vector<Hello>& roster, const std::vector<int>& ranks,
                           std::size_t shown = 4);

/// Checks that the ranks can form one job. Versions differ when major or minor differ. `cpu_ranks`: see
/// JoinOptions.
/// @throws Error, with the same text on every rank: environment (versions, some ranks on a GPU and some not),
/// or the first JoinRecord::error.
void check_roster(const std::vector<JoinRecord>& records, int cpu_ranks = 0);

/// True when more ranks on this kernel may run on the CPUs of `rank` than it has CPUs: a waiting rank then
/// keeps a working one from its core unless it yields.
bool shares_cores(const std::vector<Hello>& roster, int rank);
/// True when all of `ranks`, of which there is one at least, are on one host.
bool is_one_host(const std::vector<Hello>& roster, std::span<const int> ranks);
/// True when one of `ranks` shares its cores: the same on all of them.
bool any_shares_cores(const std::vector<Hello>& roster, std::span<const int> ranks);

}  // namespace muster::bootstrap
