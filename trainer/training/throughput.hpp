// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace muster {

/// How fast a run is, over its recent steps and as a whole. What is not known yet is 0.
class Pace {
 public:
  /// `peak_flops`: what all ranks' devices reach together in FLOP/s, measured; 0: not known, and there is no
  /// MFU.
  Pace(double flops_per_token = 0, double peak_flops = 0)
      : flops_per_token_(flops_per_token), peak_flops_(peak_flops) {}

  /// Of a step: its tokens over all ranks, and how much of its seconds went into waiting for the reduction.
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
