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
  const std::int64_t whole = std::llround(seconds);
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}s", whole);
}

std::string format_loss(double loss) {
  return std::isfinite(loss) ? fmt::format("{:.4f}", loss) : "not finite";
}

std::string progress_text(std::int64_t step, std::int64_t steps, double loss, const Throughput& throughput,
                          const std::string& unit_name, const std::string& note) {
  const double rate = throughput.recent_tokens_per_second();
  std::string out = fmt::format("step {}/{}  loss {:.4f}  {:.0f} {}/s", step, steps, loss, rate, unit_name);
  if (const auto mfu = throughput.mfu(rate))
    out += fmt::format("  MFU {:.{}f}%", 100 * *mfu, *mfu < 0.1 ? 1 : 0);
  return out +
         fmt::format("  exposed {:.1f}%{}{}  {} left", 100 * throughput.recent_exposed_share(),
                     note.empty() ? "" : "  ", note,
                     format_duration(throughput.recent_step_seconds() * static_cast<double>(steps - step)));
}

Progress::Progress(bool enabled, double seconds_between_lines, std::int64_t steps, Throughput throughput,
                   std::string unit_name)
    : enabled_(enabled),
      terminal_(output_is_terminal()),
      line_interval_(seconds_between_lines),
      steps_(steps),
      throughput_(std::move(throughput)),
      unit_name_(std::move(unit_name)),
      timer_start_(Clock::now()),
      last_due_(timer_start_) {}

Progress::~Progress() { clear_updating_line(); }

double Progress::step(std::int64_t step, double loss, std::int64_t tokens, double exposed,
                      std::optional<Clock::time_point> ended) {
  const auto now = ended.value_or(Clock::now());
  const double seconds = seconds_before_pause_ + seconds_between(timer_start_, now);
  seconds_before_pause_ = 0;
  timer_start_ = now;
  throughput_.add(tokens, seconds, exposed);
  smoothed_loss_ = smoothed_loss_ ? 0.9 * *smoothed_loss_ + 0.1 * loss : loss;
  due_ = step == steps_ || seconds_between(last_due_, now) >= line_interval_;
  if (due_) last_due_ = now;
  if (enabled_) show(step, now);
  return seconds;
}

void Progress::show(std::int64_t step, Clock::time_point now) {
  const std::string text = progress_text(step, steps_, *smoothed_loss_, throughput_, unit_name_, note_);
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
  seconds_before_pause_ = 0;
  timer_start_ = Clock::now();
}

void Progress::pause_timer() { seconds_before_pause_ += seconds_between(timer_start_, Clock::now()); }

void Progress::resume_timer() { timer_start_ = Clock::now(); }

void Progress::clear_updating_line() {
  if (!updating_line_) return;
  fmt::print("\n");
  updating_line_ = false;
}

void Progress::line(const std::string& text) {
  if (!enabled_) return;
  if (updating_line_) {
    fmt::print("\r\033[K");
    updating_line_ = false;
  }
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

}  // namespace muster
