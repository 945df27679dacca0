// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace muster {

/// Speed of a run, over recent steps and as a whole. Unknown values are 0.
class Throughput {
 public:
  /// `peak_flops`: measured FLOP/s of all ranks' devices together; 0: unknown, then there is no MFU.
  explicit Throughput(double flops_per_token = 0, double peak_flops = 0)
      : flops_per_token_(flops_per_token), peak_flops_(peak_flops) {}

  /// Adds a step: its tokens over all ranks, and the part of its seconds that waited for the reduction.
  void add(std::int64_t tokens, double seconds, double exposed_seconds);

  /// Model FLOPs utilization at this rate (PaLM, arXiv 2204.02311, appendix B): FLOP/s that the model needs,
  /// without recomputation, over the peak.
  std::optional<double> mfu(double tokens_per_second) const;

  /// Over about the last twenty steps.
  double recent_tokens_per_second() const;
  double recent_exposed_share() const;
  double recent_step_seconds() const;

  /// Over all steps.
  double median_tokens_per_second() const { return median(rates_); }
  double median_step_seconds() const { return median(durations_); }
  double exposed_share() const { return seconds_ > 0 ? exposed_ / seconds_ : 0; }
  double seconds() const noexcept { return seconds_; }
  std::int64_t tokens() const noexcept { return tokens_; }

 private:
  static double median(std::vector<float> values);

  double flops_per_token_, peak_flops_;
  double recent_weight_ = 0, recent_seconds_ = 0, recent_exposed_ = 0, recent_tokens_ = 0;
  double seconds_ = 0, exposed_ = 0;
  std::int64_t tokens_ = 0;
  std::vector<float> rates_, durations_;
};

}  // namespace muster
