// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "agreement.hpp"
#include "compute/compute.hpp"
#include "event_file.hpp"
#include "metrics.hpp"
#include "muster/muster.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "rank_facts.hpp"
#include "replica.hpp"
#include "summary.hpp"
#include "workload.hpp"

namespace muster {

/// One rank's run, from data to the last checkpoint. Every function is collective.
class Run {
 public:
  Run(const Options& options, Job& job);
  int train();

 private:
  void prepare();
  void refuse_gpu();
  void load_data();
  void require_equal_everywhere();
  void build_replica();
  void examine_machine();
  void resume();
  void announce();

  void loop(Progress& progress);
  void record(Progress& progress, std::int64_t done, const StepResult& result, double learning_rate);
  [[noreturn]] void end_not_finite(std::int64_t step, const StepResult& result);
  int stop_signal();
  void validate(Progress& progress);
  void checkpoint(Progress& progress);
  void flush_records();
  Summary summary(const Progress& progress, const std::string& ended) const;
  void write_pictures(const Progress& progress, const std::string& ended);
  void write_results(const Progress& progress);
  bool first() const { return world_.rank() == 0; }
  /// What the rates count: tokens (a text's are bytes) or images.
  const char* things() const;
  std::filesystem::path folder() const { return options_.output; }

  const Options& options_;
  Job& job_;
  Communicator world_;
  Agreement agreement_;
  std::filesystem::path checkpoint_path_, metrics_path_;

  std::unique_ptr<Workload> workload_;
  std::unique_ptr<compute::Compute<float>> compute_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Metrics> metrics_;   ///< rank 0 only
  std::unique_ptr<EventFile> events_;  ///< rank 0 only, and when they are wanted
  std::optional<Error> output_error_;  ///< what kept rank 0 from writing metrics
  TrainingState state_;
  bool resumed_ = false;
  std::int64_t first_step_ = 0, validated_step_ = -1, saved_step_ = -1;
  int signal_ = 0;

  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::vector<RankFacts> facts_;  ///< of all ranks
  double flops_per_prediction_ = 0, peak_flops_ = 0;
  double communication_seconds_ = 0;  ///< of all steps of this start
  std::size_t gradient_bytes_ = 0;    ///< reduced in a step
};

}  // namespace muster
