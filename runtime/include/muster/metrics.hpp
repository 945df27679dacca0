// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "muster/export.hpp"

namespace muster {

/// Counters of one rank's operations in all its communicators since join().
struct RankMetrics {
  struct Operation {
    std::string operation;    ///< "all_reduce"; "grouped" is one issue of a CallGroup, whose calls count too
    std::uint64_t calls = 0;  ///< failed calls included
    /// Size of this rank's whole input buffer. For broadcast and recv, of the buffer.
    std::uint64_t bytes = 0;
    /// Time in the calls. On "nccl" an operation's call only enqueues; the wait is in "synchronize". 0 unless
    /// MUSTER_METRICS or MUSTER_TIMELINE is set, or MUSTER_LOG is info or debug: otherwise no clock is read.
    double seconds = 0;
  };
  /// The operation that was called last.
  struct Last {
    std::string operation;     ///< empty when there was none
    std::string communicator;  ///< for example "world"
    /// As in the messages about missing ranks: counts the communicator's operations from 1. 0 for an
    /// operation that is not counted.
    std::uint64_t number = 0;
    std::uint64_t bytes = 0;
    bool over = true;  ///< false while the rank is inside the operation
  };

  int rank = 0;
  std::string host;
  std::string gpu;                    ///< PCI address, empty without a GPU
  std::vector<Operation> operations;  ///< every kind, in the same order on all ranks
  Last last;
};

/// The metrics in Prometheus' text format, version 0.0.4 (the "text-based exposition format" of its
/// documentation): the counters muster_operations_total, muster_operation_bytes_total and
/// muster_operation_seconds_total by rank, host, gpu and operation, and for the last operation the gauges
/// muster_last_operation_number, muster_last_operation_bytes and muster_in_operation.
MUSTER_EXPORT std::string prometheus_text(const std::vector<RankMetrics>& ranks);

}  // namespace muster
