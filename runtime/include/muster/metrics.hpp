// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/export.hpp"

namespace muster {

/// What one rank did in its communicators' operations since it joined.
struct RankMetrics {
  struct Operation {
    std::string
        operation;  ///< "all_reduce"; "grouped" is the issuing of grouped calls, which are counted each too
    std::uint64_t calls = 0;  ///< those that failed too
    /// That this rank put in: the whole input buffer. For broadcast and recv the buffer.
    std::uint64_t bytes = 0;
    /// That the calls took. On "nccl" an operation's call only enqueues: the wait is in "synchronize". 0
    /// unless MUSTER_METRICS or MUSTER_TIMELINE is set, or MUSTER_LOG is info or debug: otherwise no clock is
    /// read.
    double seconds = 0;
  };
  /// The operation that was called last.
  struct Last {
    std::string operation;     ///< empty when there was none
    std::string communicator;  ///< "world"
    /// As in the messages about missing ranks: the communicator's operations from 1 on. 0 for one that is not
    /// counted.
    std::uint64_t number = 0;
    std::uint64_t bytes = 0;
    bool over = true;  ///< false while the rank is in it
  };

  int rank = 0;
  std::string host;
  std::string gpu;                    ///< PCI address, empty without one
  std::vector<Operation> operations;  ///< every kind, in the same order everywhere
  Last last;
};

/// In Prometheus' text format, version 0.0.4 (the "text-based exposition format" of its documentation):
/// counters muster_operations_total, muster_operation_bytes_total and muster_operation_seconds_total by rank,
/// host, gpu and operation, and about the last operation the gauges muster_last_operation_number,
/// muster_last_operation_bytes and muster_in_operation.
MUSTER_EXPORT std::string prometheus_text(const std::vector<RankMetrics>& ranks);

}  // namespace muster
