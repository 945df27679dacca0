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

/// What is kept of a training step.
struct StepRecord {
  std::int64_t step = 0;  ///< counted from 1
  double loss = 0;
  double learning_rate = 0, gradient_norm = 0;
  std::int64_t tokens = 0;      ///< of all ranks
  double seconds = 0;           ///< without validations and checkpoints
  double exposed_seconds = 0;   ///< of these, waited for the reduction of gradients
  std::optional<double> mfu{};  ///< model FLOPs utilization, when the peak was measured

  double tokens_per_second() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
  double exposed_share() const { return seconds > 0 ? exposed_seconds / seconds : 0; }
};

/// One line of JSON per step and per validation in metrics.jsonl, and what the pictures show in memory. Rank
/// 0 only.
class Metrics {
 public:
  /// Starts the file anew, or, when resuming, keeps its lines up to `resumed_step` and drops the rest.
  /// @throws muster::Error(ErrorCode::system), as flush() does.
  Metrics(std::filesystem::path path, bool resume, std::int64_t resumed_step);

  void training(const StepRecord& record);
  /// A step whose update was skipped, since its loss or gradients were not finite.
  void skipped(std::int64_t step);
  /// Over `count` predictions, `right` of which are right, where the model counts that. Told again with the
  /// same loss, as a finished run does that is started again, it adds nothing.
  /// @returns whether it was added.
  bool validation(std::int64_t step, double loss, std::int64_t count, std::optional<std::int64_t> right = {});
  /// Writes what was added since the last flush.
  void flush() { file_->flush(); }

  /// Over the whole run, earlier starts included.
  struct History {
    std::vector<Point> training_loss, validation_loss;
    std::vector<Point> validation_accuracy;  ///< the share that was right, where the model counts that
    std::vector<Point> tokens_per_second, exposed_share;
    std::vector<Point> skipped;  ///< steps without an update; y is 0
  };
  const History& history() const noexcept { return history_; }

 private:
  std::string keep_earlier(const std::filesystem::path& path, std::int64_t resumed_step);

  History history_;
  std::optional<AppendFile> file_;
};

}  // namespace muster
