// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace muster {

/// "1h02m", "3m07s" or "9s".
std::string format_duration(double seconds);

/// What a person sees of a run, on standard output: one updating line on a terminal, a plain line every few
/// seconds in a log. Silent on all ranks but the first.
class Progress {
 public:
  Progress(bool speaks, double seconds_between_lines, std::int64_t first_step, std::int64_t steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Counts a finished step. `tokens` of all ranks.
  void step(std::int64_t step, double loss, std::int64_t tokens);
  /// Time that is no training (validation, checkpoints) does not count in the rate: call before and after.
  void pause();
  void go_on();
  /// A line that stays.
  void line(const std::string& text);
  /// Tokens per second since the start, without pauses.
  double rate() const noexcept;
  /// True when a log line is due, that is, every few seconds.
  bool due() const noexcept { return due_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::string text(std::int64_t step, double loss) const;
  void clear_updating_line();

  bool speaks_, terminal_;
  double between_;
  std::int64_t first_step_, steps_, tokens_ = 0;
  double trained_seconds_ = 0;  ///< before mark_
  Clock::time_point mark_, last_due_, last_drawn_{};
  bool updating_line_ = false, due_ = false;
  double smoothed_loss_ = 0;
};

}  // namespace muster
