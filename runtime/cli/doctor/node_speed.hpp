// SPDX-License-Identifier: Apache-2.0
// Finds the slowest node of a job, by measures that are comparable with one rank on each node.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "doctor/check_table.hpp"

namespace muster::cli::doctor {

enum class Measure : std::size_t {
  compute,     ///< a fixed computation that stays in the first-level cache
  copy,        ///< copying host memory that no cache holds
  gpu_copy,    ///< copying the same amount to the GPU and back
  all_reduce,  ///< an all-reduce over the node's ranks
  round_trip,  ///< a request to rank 0 over the control plane
};
inline constexpr std::size_t measure_count = 5;

/// Times of one node, in seconds; 0 where it was not measured.
struct NodeMeasures {
  std::string host;
  int ranks = 1;
  std::array<double, measure_count> seconds{};

  double& operator[](Measure measure) { return seconds[static_cast<std::size_t>(measure)]; }
  double operator[](Measure measure) const { return seconds[static_cast<std::size_t>(measure)]; }
};

/// The row "slowest node". A node is a straggler in a measure when it takes more than `factor` times as long
/// as the median node (of an even number the faster of the two) and more than `least` seconds longer. The row
/// names the node that exceeds its limit most, with all measures in which it does; without a straggler it has
/// the range of each measure. Nodes with different numbers of ranks are not compared by their all-reduce, and
/// nodes without a measure not by that one. Pure.
Row detect_stragglers(const std::vector<NodeMeasures>& nodes);

/// Limits well above the differences between equal nodes: clocks and memory differ by a few hundredths,
/// so 1.5 for all of them. A round trip may pass more switches and wakes a thread on either side: 3, and half
/// a millisecond.
struct MeasureLimit {
  double factor;
  double least;  ///< seconds
};
MeasureLimit limit_for(Measure measure);

/// Runs the fixed work on the calling thread; returns the median of nine runs, in seconds.
double time_compute();
/// The same for copying copy_bytes.
double time_copy();
/// The same for copying to the calling thread's GPU and back.
/// @throws Error(ErrorCode::device)
double time_gpu_copy();
inline constexpr std::size_t copy_bytes = std::size_t{64} << 20;

}  // namespace muster::cli::doctor
