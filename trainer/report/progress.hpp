// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "training/throughput.hpp"

namespace muster {

/// "1h02m", "3m07s" or "9s".
std::string format_duration(double seconds);

/// Four decimals, or "not finite".
std::string format_loss(double loss);

/// "step 20/100  loss 2.4012  8123 tokens/s  MFU 41%  exposed 2.1%  3m07s left"; without MFU when it is
/// unknown; with `note` before the time, unless it is empty.
std::string progress_text(std::int64_t step, std::int64_t steps, double loss, const Throughput& throughput,
                          const std::string& unit_name, const std::string& note = "");

/// Prints progress to standard output: one updating line on a terminal, a plain line every few seconds
/// otherwise. Prints only on rank 0.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;
  /// `enabled`: false prints nothing. `unit_name`: the plural of what the rate counts.
  Progress(bool enabled, double seconds_between_lines, std::int64_t steps, Throughput throughput,
           std::string unit_name = "tokens");
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Counts a finished step, which began when the previous one ended. `tokens`: over all ranks; `exposed`:
  /// seconds that waited for gradients; `ended`: if not now. Returns the step's seconds.
  double step(std::int64_t step, double loss, std::int64_t tokens, double exposed,
              std::optional<Clock::time_point> ended = {});
  /// Ends a step whose update was skipped; its time is not counted.
  void skip();
  /// Call these before and after work that is not training (validation, checkpoints), to exclude its time.
  void pause_timer();
  void resume_timer();
  /// What the lines say beside speed and loss from now on.
  void note(std::string text) { note_ = std::move(text); }
  /// False prints nothing from now on.
  void enable(bool enabled) { enabled_ = enabled; }
  /// Prints a permanent line.
  void line(const std::string& text);
  const Throughput& throughput() const noexcept { return throughput_; }
  /// True when a log line was due at the last step, that is, every few seconds.
  bool due() const noexcept { return due_; }

 private:
  void show(std::int64_t step, Clock::time_point now);
  void clear_updating_line();

  bool enabled_, terminal_;
  double line_interval_;
  std::int64_t steps_;
  Throughput throughput_;
  std::string unit_name_, note_;
  double seconds_before_pause_ = 0;  ///< seconds of the current step before the pause
  Clock::time_point timer_start_, last_due_, last_drawn_{};
  bool updating_line_ = false, due_ = false;
  std::optional<double> smoothed_loss_;  ///< over the steps since this start that were not skipped
};

}  // namespace muster
