// SPDX-License-Identifier: Apache-2.0
// Checks of the ranks' records before NCCL starts: reasons why NCCL would fail, hang or be slow.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "roster/join_record.hpp"

namespace muster::bootstrap {

struct Finding {
  bool fatal = false;   ///< NCCL would report an error, fail or hang
  std::string subject;  ///< "NCCL version", "GPUs", "socket interface", …
  std::string text;     ///< one line that names the outliers
  std::string fix;      ///< what to do, one line
};

/// Compares the records of all ranks. The most common value counts as right (rank 0's among equally common
/// ones), and the ranks with other values are named. Empty when there is nothing to report. Fatal findings
/// first. Pure.
std::vector<Finding> preflight(const std::vector<JoinRecord>& records);

/// The parts of preflight() about the network between hosts: socket interfaces and RDMA adapters.
void check_interfaces(const std::vector<JoinRecord>& records, std::vector<Finding>& findings);
void check_adapters(const std::vector<JoinRecord>& records, std::vector<Finding>& findings);

/// The part about NVLink: fabrics that are not up or not healthy, and what prevents NCCL from using NVLink
/// between hosts.
void check_fabric(const std::vector<JoinRecord>& records, std::vector<Finding>& findings);
/// The ranks with NVLink to the GPUs of another host: one cluster and clique spans several hosts.
std::vector<int> ranks_with_nvlink_between_hosts(const std::vector<JoinRecord>& records);

/// The interface that NCCL's bootstrap selects by its rules (ncclFindInterfaces, src/misc/socket.cc of
/// NCCL 2.28): one that NCCL_SOCKET_IFNAME names; else one named ib*, else any but docker*, lo* and virbr*,
/// else docker*, lo*, virbr*. Null when none matches.
const Interface* find_socket_interface(const HostInventory& inventory);

/// The adapters that are up and that NCCL_IB_HCA allows.
std::vector<const RdmaPort*> find_usable_adapters(const HostInventory& inventory);

/// True when `name`, and `port` where an item of the list has one, matches a list in the syntax of
/// NCCL_SOCKET_IFNAME and NCCL_IB_HCA: the items of "eth,ib0:1" are prefixes, whole names after "=", and
/// excluded names after "^" (or "^=").
bool in_nccl_list(const std::string& list, const std::string& name, int port = -1);

/// Largest offset of a host's clock from rank 0's that is not reported. Above it the log lines of hosts no
/// longer sort into the order of events, and files that several hosts write look newer or older than they
/// are. It is still far below the five minutes at which MUNGE rejects credentials. Hosts under NTP differ by
/// milliseconds.
inline constexpr std::chrono::seconds max_clock_skew{1};

/// The clock of one host.
struct HostClock {
  int rank = 0;                             ///< the host's first rank
  std::chrono::nanoseconds ahead{0};        ///< relative to rank 0's
  std::chrono::nanoseconds uncertainty{0};  ///< bound on the error of `ahead`
};

/// A finding when clocks are certainly off by more than max_clock_skew. Pure.
std::vector<Finding> check_clocks(const std::vector<Hello>& roster, const std::vector<HostClock>& clocks);

}  // namespace muster::bootstrap
