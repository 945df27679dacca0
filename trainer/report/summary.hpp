// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "machine/rank_info.hpp"
#include "models/memory_segment.hpp"

namespace muster {

/// What came of a run, as summary.json and the report tell it. Figures of speed and time are of this start
/// alone.
struct Summary {
  std::string ended;  ///< "finished", or why not: "signal 15"; "running" in a report in between
  std::string model, data, device, dtype;
  std::string unit =
      "token";  ///< what is predicted: "byte", "token" or "image"; "tokens" below stands for each
  std::int64_t parameters = 0;
  std::int64_t first_step = 0, steps = 0, wanted_steps = 0;  ///< updates done before this start, and now
  std::int64_t tokens_per_step = 0, gradient_bytes = 0, gathered_bytes = 0;
  double flops_per_token = 0;  ///< that the model needs

  std::optional<double> training_loss;  ///< mean over the last steps
  std::optional<double> validation_loss, best_validation_loss;
  std::int64_t best_validation_step = 0;
  std::optional<double> validation_accuracy;  ///< the last share that was right, where the model counts that
  std::int64_t skipped_updates = 0;           ///< in the whole run

  double wall_seconds = 0;                         ///< since the ranks have joined
  double training_seconds = 0;                     ///< of them, in steps
  double tokens_per_second = 0, step_seconds = 0;  ///< medians over steps
  double exposed_share = 0;                        ///< of the time in steps, waited for gradients
  double communication_seconds = 0;                ///< of a step, in which gradients were reduced; mean
  double peak_flops = 0;                           ///< all ranks' together, measured; 0: not measured
  std::optional<double> mfu;                       ///< at the median rate

  MemorySegments memory;                  ///< what rank 0 asked for
  std::uint64_t peak_resident_bytes = 0;  ///< of rank 0's process, measured
  std::uint64_t free_bytes = 0;           ///< that its host had at start

  int world_size = 1, hosts = 1;
  std::string backend, checkpoint;  ///< checkpoint: the newest good one; empty: none
  std::vector<RankFacts> ranks;
};

/// One JSON object; muster-train(1) lists its keys.
std::string as_json(const Summary& summary);

/// True when the text is a summary of a run that has ended so after so many steps.
bool is_summary_of(const std::string& text, const std::string& ended, std::int64_t steps);

/// 4.2e11 as "420 GFLOP/s".
std::string format_flops(double flops);

}  // namespace muster
