// SPDX-License-Identifier: Apache-2.0
#include "log.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>

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

// Not in spdlog's registry, so that the program's own loggers are not affected.
spdlog::logger& logger() {
  static auto const instance = [] {
    auto made = std::make_unique<spdlog::logger>("muster", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->set_level(spdlog::level::debug);
    return made;
  }();
  return *instance;
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

void warn(const std::string& text) { logger().warn("muster: warning: {}", printable(text)); }
void print(const std::string& text) { logger().info("muster: {}", printable(text)); }

void error(const std::string& text) { logger().warn("muster: {}", printable(text)); }

void print_debug(const std::string& text) {
  static auto const start = std::chrono::steady_clock::now();
  auto const ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  int const rank = shown_rank;
  auto const line =
      fmt::format("rank {}: +{:.3f} ms {}", rank < 0 ? "?" : std::to_string(rank), ms, printable(text));
  if (debug_shown()) logger().debug("muster: {}", line);
  if (!capturing) return;
  std::lock_guard const lock(captured_mutex);
  if (captured_lines.size() == max_captured_lines) captured_lines.pop_front();
  captured_lines.push_back(line);
}

}  // namespace log
}  // namespace muster
