// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::cli::bench {

enum class Operation { all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, send_recv };

std::optional<Operation> parse_operation(std::string_view name);
const char* to_string(Operation operation);
/// True when the operation adds elements.
bool is_reduction(Operation operation);
/// All names, for options.
std::vector<std::string> operation_names();

/// Bytes per nanosecond, which is GB/s with GB = 10^9 bytes: algbw = S / t. S is the size of the operation's
/// data: the buffer for all_reduce, broadcast and reduce, the data that one rank sends for send_recv, and all
/// ranks' shares together for the other operations. Defined in nccl-tests, doc/PERFORMANCE.md, "Algorithm
/// bandwidth".
double algorithm_bandwidth(std::size_t bytes, double seconds);

/// The factor from algorithm bandwidth to busbw, the rate that the slowest link must have carried with the
/// best algorithm: 2 (n - 1) / n for all_reduce; (n - 1) / n for all_gather, reduce_scatter and all_to_all; 1
/// for broadcast, reduce and send_recv. By nccl-tests, doc/PERFORMANCE.md, "Bus bandwidth", and
/// SendRecvGetBw() in src/sendrecv.cu. With one rank, 0 where n - 1 is a factor: no data is sent.
double bus_factor(Operation operation, int ranks);

/// Statistics of one or several ranks' times, in seconds; all zero without times. A percentile p is the
/// smallest time that at least p percent of the times do not exceed (nearest rank).
struct Times {
  double average = 0;
  double median = 0;
  double p95 = 0;
  double longest = 0;
};
Times summarize(std::vector<double> seconds);

}  // namespace muster::cli::bench
