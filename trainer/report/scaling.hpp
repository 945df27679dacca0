// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

/// One run of a scaling study, from its summary.json.
struct ScalingRun {
  int ranks = 1, hosts = 1;
  std::int64_t tokens_per_step = 0;
  double step_seconds = 0;           ///< median
  double exposed_share = 0;          ///< share of the time in steps that waited for gradients
  double communication_seconds = 0;  ///< per step, while gradients were reduced
  double gradient_bytes = 0;
  double gathered_bytes = 0;  ///< of parameters, gathered per step
};

struct ScalingPoint {
  ScalingRun run;
  double tokens_per_second = 0,
         efficiency = 0;  ///< measured; efficiency 1: as fast per rank as the first run
  double predicted_efficiency = 0;
};

/// Bytes per second between hosts in the runs' own reductions: the median over the runs with several hosts; 0
/// when there is none.
double median_link_rate(const std::vector<ScalingRun>& runs);

/// Measured and predicted efficiency, in order of ranks. The prediction starts from the first run. Computing
/// takes the first run's time per token and rank. Gradients take 2(H-1)/H times their bytes over each host's
/// link for H hosts (a ring: Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009); up to two thirds of
/// computing, the backward pass (twice the forward pass' operations), overlap with them. Gathered parameters
/// take (H-1)/H times their bytes, without overlap. `link_rate`: bytes per second; 0: communication takes no
/// time.
/// @throws muster::Error(ErrorCode::usage) for runs that cannot be compared.
std::vector<ScalingPoint> compare_runs(std::vector<ScalingRun> runs, double link_rate);

/// `muster-train scaling`: reads the runs' folders, prints a table and writes the chart. Returns the exit
/// code.
/// @throws muster::Error
int scaling_command(int argc, const char* const* argv);

}  // namespace muster
