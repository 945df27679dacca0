// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::cli::bench {

enum class Operation { all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, send_recv };

std::optional<Operation> operation_of(std::string_view name);
const char* name_of(Operation operation);
/// Whether it sums.
bool reduces(Operation operation);
/// For options: all names.
std::vector<std::string> operation_names();

/// Bytes per nanosecond, which is GB/s with GB = 10^9 bytes: algbw = S / t, where S is the size of the
/// operation's data: the buffer for all_reduce, broadcast and reduce, what one rank sends for send_recv, all
/// ranks' shares together for the others. By definition of nccl-tests, doc/PERFORMANCE.md, "Algorithm
/// bandwidth".
double algorithm_bandwidth(std::size_t bytes, double seconds);

/// What the algorithm bandwidth is multiplied with for busbw, the rate that the slowest link must have
/// carried with the best algorithm: 2 (n - 1) / n for all_reduce; (n - 1) / n for all_gather, reduce_scatter
/// and all_to_all; 1 for broadcast, reduce and send_recv. By nccl-tests, doc/PERFORMANCE.md, "Bus bandwidth",
/// and SendRecvGetBw() in src/sendrecv.cu. For one rank 0 where n - 1 is a factor: nothing is carried.
double bus_factor(Operation operation, int ranks);

/// Of one rank's times, or of several, in seconds; all zero for none. A percentile p is the smallest time
/// that at least p percent of them do not exceed (nearest rank).
struct Times {
  double average = 0;
  double median = 0;
  double p95 = 0;
  double longest = 0;
};
Times summary_of(std::vector<double> seconds);

}  // namespace muster::cli::bench
