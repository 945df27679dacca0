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

/// The file name of one rank: in `pattern`, %r is its rank, %h its host, %% a percent sign. Each rank needs a
/// file of its own, so in a job of several ranks a pattern without %r gets ".RANK" before its extension, or
/// at its end.
/// @throws Error(ErrorCode::usage) for anything else after a percent sign.
std::string metrics_path(const std::string& pattern, const Hello& self, int ranks);

/// Writes this rank's metrics in Prometheus' text format into a file at regular intervals, for
/// node_exporter's textfile collector. Each write replaces the whole file. It has a thread of its own.
class MetricsFile {
 public:
  /// Opens the file by MUSTER_METRICS and MUSTER_METRICS_INTERVAL. Null when the former is not set, or when
  /// the file cannot be written: it then logs one warning, and the job goes on without the file.
  static std::unique_ptr<MetricsFile> open(const Hello& self, int ranks);

  MetricsFile(std::string path, std::chrono::milliseconds interval, Hello self);
  /// Writes the file a last time.
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
