// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "config/options.hpp"
#include "report/event_file.hpp"
#include "report/metrics.hpp"
#include "report/progress.hpp"
#include "report/summary.hpp"
#include "run/membership_history.hpp"
#include "training/model.hpp"
#include "training/step.hpp"
#include "training/throughput.hpp"

namespace muster {

/// Records a run for people: lines of progress, metrics, TensorBoard's events, charts, report and summary.
/// Rank 0 only.
/// Functions that write throw muster::Error(ErrorCode::system).
class Recorder {
 public:
  /// `facts`: the values of the summary that do not change during the run. `continues`: the metrics up to
  /// facts.first_step stay. `started`: when the ranks joined the job. The options must outlive the recorder.
  Recorder(const Options& options, Summary facts, bool continues,
           std::chrono::steady_clock::time_point started);

  /// Counts what a step has communicated and loaded; before step().
  void communication(const StepResult& result);
  void step(Progress& progress, std::int64_t step, const StepResult& result, double learning_rate);
  /// Counts one that is no part of a step.
  void synchronization(const Synchronization& done);
  void skipped_update(std::int64_t step) { metrics_.skipped(step); }
  void validation(Progress& progress, std::int64_t step, const Validation& found);
  bool has_validation(std::int64_t step) const;
  /// Summary::left_out_images. `images`: of each rank.
  void left_out(Progress& progress, const std::vector<std::vector<std::string>>& images);
  /// Summary::lost_ranks and joined_ranks.
  void membership(const MembershipHistory& history) {
    facts_.lost_ranks = history.lost_ranks();
    facts_.joined_ranks = history.joined_ranks();
  }
  /// Summary::step_picture.
  void step_picture(std::string svg) { facts_.step_picture = std::move(svg); }
  /// Writes what was recorded since the last flush.
  void flush();

  /// The summary after `step`. `checkpoint`: the newest good one. `ended`: Summary::ended.
  Summary summary(const Throughput& throughput, std::int64_t step, const std::filesystem::path& checkpoint,
                  const std::string& ended) const;
  /// A function that writes loss.svg and report.html, with this summary and the metrics of this moment.
  std::function<void()> report_writer(Summary summary) const;
  /// Writes all results and prints where they are.
  void write_results(const Summary& summary);

 private:
  double mean_gradient_bytes() const;
  /// "3 averages, 0.4 MB/step" since this start.
  std::string describe_synchronizations() const;

  const Options& options_;
  std::filesystem::path folder_, metrics_path_;
  Summary facts_;
  std::chrono::steady_clock::time_point started_;
  Metrics metrics_;
  std::optional<EventFile> events_;  ///< with --tensorboard
  // Over all steps since this start:
  double communication_seconds_ = 0, loading_seconds_ = 0, gradient_bytes_ = 0;
  std::int64_t reducing_steps_ = 0, synchronizations_ = 0;
  std::vector<std::string> left_out_;
};

}  // namespace muster
