// SPDX-License-Identifier: Apache-2.0
#include "log.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string_view>

#include "clock.hpp"
#include "deadline.hpp"
#include "text/printable.hpp"

namespace muster {

std::string format_duration(std::chrono::milliseconds length) {
  auto const ms = length.count();
  if (ms < 1000) return fmt::format("{} ms", ms);
  if ((ms + 50) % 1000 < 100) return fmt::format("{} s", (ms + 50) / 1000);
  return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
}

namespace log {
namespace {

std::atomic<int> shown_rank{-1};

// In one call, so that lines of several threads do not mix.
void print_line(std::string_view prefix, const std::string& text) {
  if (simulation) return simulation->print_line(fmt::format("{}{}", prefix, printable(text)));
  auto const line = fmt::format("muster: {}{}\n", prefix, printable(text));
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::atomic<bool> capturing{false};
std::mutex captured_mutex;
std::deque<std::string> captured_lines;
constexpr std::size_t max_captured_lines = 200;

bool debug_shown() {
  static bool const on = [] {
    const char* const value = std::getenv("MUSTER_LOG");
    return value != nullptr && std::string_view(value) == "debug";
  }();
  return on;
}

}  // namespace

bool debug_enabled() { return debug_shown() || capturing; }

void start_capture() { capturing = true; }

std::vector<std::string> captured() {
  std::lock_guard const lock(captured_mutex);
  return {captured_lines.begin(), captured_lines.end()};
}

bool info_enabled() {
  static bool const on = [] {
    const char* const value = std::getenv("MUSTER_LOG");
    return debug_shown() || (value != nullptr && std::string_view(value) == "info");
  }();
  return on;
}

void set_rank(int rank) { shown_rank = rank; }

void warn(const std::string& text) { print_line("warning: ", text); }
void print(const std::string& text) { print_line("", text); }

void print_debug(const std::string& text) {
  static auto const start = std::chrono::steady_clock::now();
  auto const ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  int const rank = shown_rank;
  auto const line = fmt::format("rank {}: +{:.3f} ms {}", rank < 0 ? "?" : std::to_string(rank), ms, text);
  if (debug_shown()) print(line);
  if (!capturing) return;
  std::lock_guard const lock(captured_mutex);
  if (captured_lines.size() == max_captured_lines) captured_lines.pop_front();
  captured_lines.push_back(printable(line));
}

}  // namespace log
}  // namespace muster
