// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "terminal.hpp"

namespace muster {
namespace {

constexpr double redraw_seconds = 0.1;

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}s", whole);
}

Progress::Progress(bool speaks, double seconds_between_lines, std::int64_t first_step, std::int64_t steps)
    : speaks_(speaks),
      terminal_(output_is_terminal()),
      between_(seconds_between_lines),
      first_step_(first_step),
      steps_(steps),
      mark_(Clock::now()),
      last_due_(mark_) {}

Progress::~Progress() { clear_updating_line(); }

double Progress::rate() const noexcept {
  const double seconds = trained_seconds_ + seconds_between(mark_, Clock::now());
  return seconds > 0 ? static_cast<double>(tokens_) / seconds : 0;
}

std::string Progress::text(std::int64_t step, double loss) const {
  const double per_step =
      (trained_seconds_ + seconds_between(mark_, Clock::now())) / static_cast<double>(step - first_step_);
  return fmt::format("step {}/{}  loss {:.4f}  {:.0f} tokens/s  {} left", step, steps_, loss, rate(),
                     format_duration(per_step * static_cast<double>(steps_ - step)));
}

void Progress::step(std::int64_t step, double loss, std::int64_t tokens) {
  tokens_ += tokens;
  smoothed_loss_ = step == first_step_ + 1 ? loss : 0.9 * smoothed_loss_ + 0.1 * loss;
  const auto now = Clock::now();
  const bool last = step == steps_;
  due_ = last || seconds_between(last_due_, now) >= between_;
  if (due_) last_due_ = now;
  if (!speaks_) return;
  if (terminal_) {
    if (!last && seconds_between(last_drawn_, now) < redraw_seconds) return;
    last_drawn_ = now;
    fmt::print("\r{}\033[K", text(step, smoothed_loss_).substr(0, terminal_columns() - 1));
    updating_line_ = true;
    if (last) clear_updating_line();
  } else if (due_) {
    fmt::print("{}\n", text(step, smoothed_loss_));
  }
  std::fflush(stdout);
}

void Progress::pause() {
  const auto now = Clock::now();
  trained_seconds_ += seconds_between(mark_, now);
  mark_ = now;
}

void Progress::go_on() { mark_ = Clock::now(); }

void Progress::clear_updating_line() {
  if (!updating_line_) return;
  fmt::print("\n");
  updating_line_ = false;
}

void Progress::line(const std::string& text) {
  if (!speaks_) return;
  if (updating_line_) {
    fmt::print("\r\033[K");
    updating_line_ = false;
  }
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

}  // namespace muster
