// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "files/append_file.hpp"
#include "report/chart.hpp"

namespace muster {

/// The metrics of a training step.
struct StepRecord {
  std::int64_t step = 0;  ///< counted from 1
  double loss = 0;
  double learning_rate = 0, gradient_norm = 0;
  std::int64_t tokens = 0;             ///< of all ranks
  double seconds = 0;                  ///< without time in validations and checkpoints
  double exposed_seconds = 0;          ///< the part of `seconds` that waited for the reduction of gradients
  std::optional<double> mfu{};         ///< model FLOPs utilization, when the peak was measured
  std::size_t communicated_bytes = 0;  ///< that the step reduced and gathered, of each rank
  bool synchronized = false;           ///< StepResult::synchronized

  double tokens_per_second() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
  double exposed_share() const { return seconds > 0 ? exposed_seconds / seconds : 0; }
};

/// Writes one line of JSON per step and per validation to metrics.jsonl, and keeps in memory what the charts
/// show. Rank 0 only.
class Metrics {
 public:
  /// Creates the file anew; when resuming, keeps its lines up to `resumed_step`.
  /// @throws muster::Error(ErrorCode::system), as flush() does.
  Metrics(std::filesystem::path path, bool resume, std::int64_t resumed_step);

  void training(const StepRecord& record);
  /// Records a step whose update was skipped because its loss or gradients were not finite.
  void skipped(std::int64_t step);
  /// Records a validation over `count` predictions; `right` of them are right, when the model counts that.
  /// Adds nothing when the last validation has the same step and loss, as in a finished run that is started
  /// again.
  /// @returns whether it was added.
  bool validation(std::int64_t step, double loss, std::int64_t count, std::optional<std::int64_t> right = {});
  /// Writes what was added since the last flush.
  void flush() { file_->flush(); }

  /// Metrics of the whole run, including earlier starts.
  struct History {
    std::vector<Point> training_loss, validation_loss;
    std::vector<Point> validation_accuracy;  ///< share of right predictions, when the model counts them
    std::vector<Point> tokens_per_second, exposed_share;
    std::vector<Point> skipped;  ///< steps without an update; y is 0
  };
  const History& history() const noexcept { return history_; }

 private:
  std::string keep_earlier_lines(const std::filesystem::path& path, std::int64_t resumed_step);

  History history_;
  std::optional<AppendFile> file_;
};

}  // namespace muster
