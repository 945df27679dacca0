// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "machine/rank_info.hpp"
#include "models/memory_segment.hpp"

namespace muster {

/// Results of a run, for summary.json and the report. Speeds and times are since this start.
struct Summary {
  /// "finished", or the reason: "stopped by signal 15"; "running" in an intermediate report.
  std::string ended;
  std::string model, data, device, dtype;
  /// What is predicted: "byte", "token" or "image". Fields named tokens count these.
  std::string unit = "token";
  std::string strategy = "data-parallel";  ///< --strategy
  std::int64_t parameters = 0;
  /// Updates done before this start, updates done now, --steps.
  std::int64_t first_step = 0, steps = 0, wanted_steps = 0;
  /// Bytes: means over the steps of this start.
  std::int64_t tokens_per_step = 0, gradient_bytes = 0, gathered_bytes = 0;
  std::int64_t synchronizations = 0;  ///< averages of parameters in this start
  double flops_per_token = 0;         ///< that the model needs per token

  std::optional<double> training_loss;  ///< mean over the last steps
  std::optional<double> validation_loss, best_validation_loss;
  std::int64_t best_validation_step = 0;
  std::optional<double> validation_accuracy;  ///< last share of right predictions, when the model counts them
  std::int64_t skipped_updates = 0;           ///< in the whole run

  double wall_seconds = 0;                         ///< since the ranks joined the job
  double training_seconds = 0;                     ///< part of wall_seconds in steps
  double tokens_per_second = 0, step_seconds = 0;  ///< medians over steps
  double exposed_share = 0;                        ///< share of the time in steps that waited for gradients
  double communication_seconds = 0;                ///< per step, while gradients were reduced; mean
  double loading_share = 0;  ///< share of the time in steps that rank 0 waited for samples
  /// Images that were left out because they cannot be used, each with its reason.
  std::vector<std::string> left_out_images;
  double peak_flops = 0;      ///< measured, sum over ranks; 0: not measured
  std::optional<double> mfu;  ///< at the median rate

  MemorySegments memory;                  ///< estimated memory of rank 0
  std::uint64_t peak_resident_bytes = 0;  ///< measured, of rank 0's process
  std::uint64_t free_bytes = 0;           ///< free memory of rank 0's host, or of its GPU, at start
  bool on_gpu = false;
  std::uint64_t gpu_bytes = 0;  ///< that rank 0 has allocated on its GPU, at the end

  int world_size = 1, hosts = 1;          ///< at the start
  std::vector<std::string> lost_ranks;    ///< without which the run went on, and after which step
  std::vector<std::string> joined_ranks;  ///< spares and processes that joined, and after which step
  std::string backend, checkpoint;        ///< checkpoint: newest good one; empty: none
  std::vector<RankInfo> ranks;
  std::string step_picture;  ///< an <svg> element of the ranks' last step; maybe empty
};

/// The summary as a JSON object; muster-train(1) lists its keys.
std::string as_json(const Summary& summary);

/// True when the text is the summary of a run with this `ended` and this number of steps.
bool is_summary_of(const std::string& text, const std::string& ended, std::int64_t steps);

/// 4.2e11 to "420 GFLOP/s".
std::string format_flops(double flops);

}  // namespace muster
