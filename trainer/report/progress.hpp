// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "training/throughput.hpp"

namespace muster {

/// "1h02m", "3m07s" or "9s".
std::string format_duration(double seconds);

/// 4 digits after the point, or "not finite".
std::string format_loss(double loss);

/// "step 20/100  loss 2.4012  8123 tokens/s  MFU 41%  exposed 2.1%  3m07s left"; without MFU where it is not
/// known.
std::string progress_text(std::int64_t step, std::int64_t steps, double loss, const Pace& pace,
                          const std::string& things);

/// What a person sees of a run, on standard output: one updating line on a terminal, a plain line every few
/// seconds in a log. Silent on all ranks but the first.
class Progress {
 public:
  /// `pace` counts from its first step on. `things` are what it counts.
  Progress(bool speaks, double seconds_between_lines, std::int64_t steps, Pace pace,
           std::string things = "tokens");
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Counts a finished step, which began when the one before ended. `tokens` of all ranks; `exposed` seconds
  /// were waited for gradients. Returns the seconds that it took.
  double step(std::int64_t step, double loss, std::int64_t tokens, double exposed);
  /// A step whose update was skipped has ended: its time belongs to no step.
  void skip();
  /// Time that is no training (validation, checkpoints) does not count: call before and after.
  void pause();
  void go_on();
  /// A line that stays.
  void line(const std::string& text);
  const Pace& pace() const noexcept { return pace_; }
  /// True when a log line is due, that is, every few seconds.
  bool due() const noexcept { return due_; }

 private:
  using Clock = std::chrono::steady_clock;
  void show(std::int64_t step, Clock::time_point now);
  void clear_updating_line();

  bool speaks_, terminal_;
  double between_;
  std::int64_t steps_;
  Pace pace_;
  std::string things_;
  double before_pause_ = 0;  ///< seconds of the step that goes on
  Clock::time_point mark_, last_due_, last_drawn_{};
  bool updating_line_ = false, due_ = false;
  std::optional<double> smoothed_loss_;  ///< of this start's steps that were not skipped
};

}  // namespace muster
