// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "agreement.hpp"
#include "compute/compute.hpp"
#include "metrics.hpp"
#include "muster/muster.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "replica.hpp"
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
  void resume();
  void announce();

  void loop(Progress& progress);
  void record(Progress& progress, std::int64_t done, const StepResult& result, double learning_rate);
  [[noreturn]] void end_not_finite(std::int64_t step, const StepResult& result);
  int stop_signal();
  void validate(Progress& progress);
  void checkpoint(Progress& progress);
  void write_plot();
  bool first() const { return world_.rank() == 0; }

  const Options& options_;
  Job& job_;
  Communicator world_;
  Agreement agreement_;
  std::filesystem::path checkpoint_path_, metrics_path_, plot_path_;

  std::unique_ptr<Workload> workload_;
  std::unique_ptr<compute::Compute<float>> compute_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Metrics> metrics_;   ///< rank 0 only
  std::optional<Error> output_error_;  ///< what kept rank 0 from writing metrics
  TrainingState state_;
  bool resumed_ = false;
  std::int64_t first_step_ = 0, validated_step_ = -1, saved_step_ = -1;
  int signal_ = 0;
};

}  // namespace muster
