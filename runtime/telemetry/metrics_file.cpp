// SPDX-License-Identifier: Apache-2.0
#include "telemetry/metrics_file.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "log.hpp"
#include "telemetry/counters.hpp"
#include "telemetry/telemetry_file.hpp"

namespace muster::observe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Prometheus scrapes every minute by default; node_exporter reads the file at each scrape.
constexpr seconds default_interval{15};
constexpr seconds longest_interval{24 * 3600};

seconds parse_interval(const char* text) {
  if (text == nullptr || *text == '\0') return default_interval;
  long value = 0;
  const char* const end = text + std::strlen(text);
  auto const [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc{} || rest != end || value < 1 || seconds(value) > longest_interval) {
    throw Error(ErrorCode::usage,
                fmt::format("MUSTER_METRICS_INTERVAL is '{}', not a number of seconds from 1 to {}", text,
                            longest_interval.count()));
  }
  return seconds(value);
}

}  // namespace

std::string metrics_path(const std::string& pattern, const Hello& self, int ranks) {
  std::string path;
  bool numbered = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      path += pattern[i];
      continue;
    }
    char const what = i + 1 < pattern.size() ? pattern[++i] : '\0';
    if (what == 'r') {
      path += std::to_string(self.rank);
      numbered = true;
    } else if (what == 'h') {
      path += self.host;
    } else if (what == '%') {
      path += '%';
    } else {
      throw Error(
          ErrorCode::usage,
          fmt::format("MUSTER_METRICS is '{}': % must be followed by r (rank), h (host) or %", pattern));
    }
  }
  if (numbered || ranks == 1) return path;
  std::filesystem::path const whole(path);
  auto const name = fmt::format("{}.{}{}", whole.stem().string(), self.rank, whole.extension().string());
  return (whole.parent_path() / name).string();
}

std::unique_ptr<MetricsFile> MetricsFile::open(const Hello& self, int ranks) {
  const char* const pattern = std::getenv("MUSTER_METRICS");
  if (pattern == nullptr || *pattern == '\0') return nullptr;
  try {
    auto const interval = parse_interval(std::getenv("MUSTER_METRICS_INTERVAL"));
    return std::make_unique<MetricsFile>(metrics_path(pattern, self, ranks), interval, self);
  } catch (const Error& error) {
    // Only the first rank of each host warns: an error may be common to all ranks, but a directory can also
    // be missing on one host.
    auto const text = fmt::format("MUSTER_METRICS: {}; rank {} goes on without it", error.what(), self.rank);
    if (self.local_rank == 0) log::warn(text);
    return nullptr;
  }
}

MetricsFile::MetricsFile(std::string path, milliseconds interval, Hello self)
    : path_(std::move(path)), interval_(interval), self_(std::move(self)) {
  counters().measure_time();
  write();
  thread_ = std::thread([this] { run(); });
}

MetricsFile::~MetricsFile() {
  {
    std::lock_guard const lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void MetricsFile::write() const {
  TelemetryFile file(path_);
  file.write(prometheus_text({counters().read(self_)}));
  file.commit();
}

void MetricsFile::run() {
  bool warned = false;
  std::unique_lock lock(mutex_);
  for (bool over = false; !over;) {
    changed_.wait_for(lock, interval_, [&] { return ended_; });
    over = ended_;
    lock.unlock();
    try {
      write();
    } catch (const std::exception& error) {
      if (!warned) log::warn("MUSTER_METRICS: rank {}: {}", self_.rank, error.what());
      warned = true;
    }
    lock.lock();
  }
}

}  // namespace muster::observe
