// SPDX-License-Identifier: Apache-2.0
#include "report/progress.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <utility>

#include "report/terminal.hpp"

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

std::string format_loss(double loss) {
  return std::isfinite(loss) ? fmt::format("{:.4f}", loss) : "not finite";
}

std::string progress_text(std::int64_t step, std::int64_t steps, double loss, const Pace& pace,
                          const std::string& things) {
  const double rate = pace.recent_tokens_per_second();
  std::string out = fmt::format("step {}/{}  loss {:.4f}  {:.0f} {}/s", step, steps, loss, rate, things);
  if (const auto mfu = pace.mfu(rate)) out += fmt::format("  MFU {:.{}f}%", 100 * *mfu, *mfu < 0.1 ? 1 : 0);
  return out + fmt::format("  exposed {:.1f}%  {} left", 100 * pace.recent_exposed_share(),
                           format_duration(pace.recent_step_seconds() * static_cast<double>(steps - step)));
}

Progress::Progress(bool speaks, double seconds_between_lines, std::int64_t steps, Pace pace,
                   std::string things)
    : speaks_(speaks),
      terminal_(output_is_terminal()),
      between_(seconds_between_lines),
      steps_(steps),
      pace_(std::move(pace)),
      things_(std::move(things)),
      mark_(Clock::now()),
      last_due_(mark_) {}

Progress::~Progress() { clear_updating_line(); }

double Progress::step(std::int64_t step, double loss, std::int64_t tokens, double exposed) {
  const auto now = Clock::now();
  const double seconds = before_pause_ + seconds_between(mark_, now);
  before_pause_ = 0;
  mark_ = now;
  pace_.add(tokens, seconds, exposed);
  smoothed_loss_ = smoothed_loss_ ? 0.9 * *smoothed_loss_ + 0.1 * loss : loss;
  due_ = step == steps_ || seconds_between(last_due_, now) >= between_;
  if (due_) last_due_ = now;
  if (speaks_) show(step, now);
  return seconds;
}

void Progress::show(std::int64_t step, Clock::time_point now) {
  const std::string text = progress_text(step, steps_, *smoothed_loss_, pace_, things_);
  if (terminal_) {
    if (step != steps_ && seconds_between(last_drawn_, now) < redraw_seconds) return;
    last_drawn_ = now;
    fmt::print("\r{}\033[K", text.substr(0, terminal_columns() - 1));
    updating_line_ = true;
    if (step == steps_) clear_updating_line();
  } else if (due_) {
    fmt::print("{}\n", text);
  }
  std::fflush(stdout);
}

void Progress::skip() {
  before_pause_ = 0;
  mark_ = Clock::now();
}

void Progress::pause() { before_pause_ += seconds_between(mark_, Clock::now()); }

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
