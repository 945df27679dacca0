// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "muster/job.hpp"

namespace muster::observe {

/// The file of one rank: %r is its rank, %h its host, %% a percent sign. In a job of several ranks a pattern
/// without %r gets
/// ".RANK" before its extension, or at its end, since each rank writes its own.
/// @throws Error(ErrorCode::usage) for anything else after a percent sign.
std::string metrics_path(const std::string& pattern, const Hello& self, int ranks);

/// Writes this rank's metrics in Prometheus' text format into a file again and again, whole each time, as
/// node_exporter's textfile collector reads them. On a thread of its own.
class MetricsFile {
 public:
  /// As MUSTER_METRICS and MUSTER_METRICS_INTERVAL say; null when the former is not set, or, which is said in
  /// one line, the file cannot be written: the job goes on without it.
  static std::unique_ptr<MetricsFile> open(const Hello& self, int ranks);

  MetricsFile(std::string path, std::chrono::milliseconds interval, Hello self);
  /// Writes a last time.
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

 private:
  void write() const;
  void run();

  std::string path_;
  std::chrono::milliseconds interval_;
  Hello self_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace muster::observe
