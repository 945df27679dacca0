// SPDX-License-Identifier: Apache-2.0
// What can be seen in the roster, before NCCL starts, of why it would fail, hang or be slow.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "roster/join_record.hpp"

namespace muster::bootstrap {

struct Finding {
  bool fatal = false;   ///< NCCL would refuse, fail or hang
  std::string subject;  ///< "NCCL version", "GPUs", "socket interface", …
  std::string text;     ///< one line that names the outliers
  std::string fix;      ///< what to do, one line
};

/// Compares the records of all ranks: the most common value counts as right (rank 0's among equally common
/// ones) and the ranks that have another are named. Empty when all is well. Fatal ones first. Pure.
std::vector<Finding> preflight(const std::vector<JoinRecord>& records);

/// The parts of preflight() about how hosts reach each other: socket interfaces and RDMA adapters.
void check_interfaces(const std::vector<JoinRecord>& records, std::vector<Finding>& findings);
void check_adapters(const std::vector<JoinRecord>& records, std::vector<Finding>& findings);

/// The part about NVLink: fabrics that are not up or not healthy, and what keeps NCCL from the NVLink between
/// hosts.
void check_fabric(const std::vector<JoinRecord>& records, std::vector<Finding>& findings);
/// The ranks whose GPUs reach those of another host over NVLink: one cluster and clique on several hosts.
std::vector<int> ranks_with_nvlink_between_hosts(const std::vector<JoinRecord>& records);

/// The interface that NCCL's bootstrap takes by its rules (ncclFindInterfaces, src/misc/socket.cc of
/// NCCL 2.28): what NCCL_SOCKET_IFNAME names, else one called ib*, else any but docker*, lo* and virbr*, else
/// docker*, lo*, virbr*. Null when none fits.
const Interface* socket_interface_of(const HostInventory& around);

/// The adapters that are up and that NCCL_IB_HCA leaves.
std::vector<const RdmaPort*> usable_adapters_of(const HostInventory& around);

/// True when `name`, and `port` where a name in the list has one, is in a list as NCCL_SOCKET_IFNAME and
/// NCCL_IB_HCA are: "eth,ib0:1" are prefixes, after "=" whole names, after "^" (or "^=") what is left out.
bool in_nccl_list(const std::string& list, const std::string& name, int port = -1);

/// How far a host's clock may be from rank 0's before it is worth a line: from here on the log lines of hosts
/// no longer sort into the order of events, and files that several hosts write look newer or older than they
/// are; it is still far below the five minutes at which MUNGE refuses credentials. Hosts under NTP differ by
/// milliseconds.
inline constexpr std::chrono::seconds clock_limit{1};

/// The clock of one host.
struct HostClock {
  int rank = 0;                           ///< the host's first rank
  std::chrono::nanoseconds ahead{0};      ///< of rank 0's
  std::chrono::nanoseconds uncertain{0};  ///< by how much that may be wrong
};

/// A finding when clocks are beyond clock_limit with certainty. Pure.
std::vector<Finding> check_clocks(const std::vector<Hello>& roster, const std::vector<HostClock>& clocks);

}  // namespace muster::bootstrap
