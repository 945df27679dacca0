// SPDX-License-Identifier: Apache-2.0
// Which node of a job is slower than the others, by measures that mean something with one rank on each.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "doctor/finding_table.hpp"

namespace muster::cli::doctor {

enum class Pace : std::size_t {
  compute,     ///< a fixed computation that stays in the first-level cache
  copy,        ///< copying host memory that no cache holds
  gpu_copy,    ///< the same amount to the GPU and back
  all_reduce,  ///< among the node's ranks
  round_trip,  ///< a question to rank 0 over the control plane
};
inline constexpr std::size_t paces = 5;

/// How long one node takes, in seconds; 0 where it was not measured.
struct NodePace {
  std::string host;
  int ranks = 1;
  std::array<double, paces> seconds{};

  double& operator[](Pace pace) { return seconds[static_cast<std::size_t>(pace)]; }
  double operator[](Pace pace) const { return seconds[static_cast<std::size_t>(pace)]; }
};

/// The row "slowest node". A node stands out in a measure when it takes more than `factor` times as long as
/// the middle one (of an even number the faster of the two) and by more than `least` seconds longer. The one
/// that stands out most is named, with all measures in which it does; when none does, all are alike and the
/// row has the range of each measure. Nodes with different numbers of ranks are not compared by their
/// all-reduce, nor nodes without a measure by that. Pure.
Row judge_paces(const std::vector<NodePace>& nodes);

/// Well above what equal nodes differ by: clocks and memory by a few hundredths, 1.5 for all of them. A round
/// trip may go through more switches and wake a thread on either side: 3, and half a millisecond.
struct PaceLimit {
  double factor;
  double least;  ///< seconds
};
PaceLimit limit_of(Pace pace);

/// The fixed work, on the calling thread: the median of nine, in seconds.
double time_compute();
/// Likewise; copies copied_bytes.
double time_copy();
/// Likewise, to the calling thread's GPU and back.
/// @throws Error(ErrorCode::device)
double time_gpu_copy();
inline constexpr std::size_t copied_bytes = std::size_t{64} << 20;

}  // namespace muster::cli::doctor
