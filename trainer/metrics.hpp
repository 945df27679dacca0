// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace muster {

struct LossPoint {
  std::int64_t step = 0;
  double loss = 0;
};

/// One line of JSON per step and per validation in metrics.jsonl, and the losses in memory for the plot. Rank
/// 0 only.
class Metrics {
 public:
  /// Starts the file anew, or, when resuming, keeps its lines up to `resumed_step` and drops the rest.
  /// @throws muster::Error(Fault::system), as flush() does.
  Metrics(std::filesystem::path path, bool resume, std::int64_t resumed_step);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void training(std::int64_t step, double loss, double learning_rate, double gradient_norm,
                double tokens_per_second, double exposed_seconds);
  void validation(std::int64_t step, double loss, std::int64_t bytes);
  /// Writes what was added since the last flush.
  void flush();

  const std::vector<LossPoint>& training_losses() const noexcept { return training_; }
  const std::vector<LossPoint>& validation_losses() const noexcept { return validation_; }

 private:
  void keep_earlier(std::int64_t resumed_step);
  void open();

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string pending_;
  std::vector<LossPoint> training_, validation_;
};

}  // namespace muster
