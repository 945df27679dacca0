// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/checkpoint_writer.hpp"
#include "compute/compute.hpp"
#include "compute/cuda/open_device.hpp"
#include "config/options.hpp"
#include "files/folder_lock.hpp"
#include "machine/host_memory.hpp"
#include "machine/rank_info.hpp"
#include "muster/muster.hpp"
#include "optimizer/schedule.hpp"
#include "report/event_file.hpp"
#include "report/metrics.hpp"
#include "report/progress.hpp"
#include "report/run_status.hpp"
#include "report/summary.hpp"
#include "training/collective_errors.hpp"
#include "training/replica.hpp"
#include "training/workload.hpp"

namespace muster {

/// One rank's run, from reading the data to the last checkpoint. Every function is collective unless it is
/// marked "Rank 0 only".
class Run {
 public:
  Run(const Options& options, Job& job);
  int train();

 private:
  void prepare();
  void open_gpu();
  void load_data();
  void check_same_on_all_ranks();
  void check_memory();
  void build_replica();
  template <typename Real>
  void build_replica_on(std::unique_ptr<compute::Compute<Real>> compute, Communicator tensors);
  void gather_machine_info();
  std::optional<CheckpointFolder::Found> newest_checkpoint();
  std::optional<CheckpointFolder::Found> named_checkpoint();
  void resume();
  void print_run_info();
  void print_memory_estimate() const;

  void loop(Progress& progress);
  /// Begins the step that follows those in flight.
  void begin_step();
  /// Ends the oldest steps until `left` are in flight. True when a rank wants to stop.
  bool end_steps(Progress& progress, std::size_t left);
  void record(Progress& progress, std::int64_t done, const StepResult& result, double learning_rate);
  void report_skipped_update(Progress& progress, const StepResult& result);
  int stop_signal();
  /// When a signal arrives during the validation, sets signal_ and reports no loss.
  void validate(Progress& progress);
  /// True when a signal interrupted the validation after the checkpoint's step, so it must be run again.
  bool needs_validation();
  bool is_due(std::int64_t every) const { return is_due(every, state_.step); }
  static bool is_due(std::int64_t every, std::int64_t step) { return every > 0 && step % every == 0; }
  /// True when step `step` must have ended before the next one begins: for a validation, a checkpoint or the
  /// end.
  bool must_end_before_next(std::int64_t step) const {
    return step == options_.steps || is_due(options_.eval_every, step) ||
           is_due(options_.checkpoint_every, step);
  }
  void finish(Progress& progress);
  /// Copies the tensors and the state; rank 0 then writes them while training continues.
  void checkpoint(Progress& progress);

  // Rank 0 only:
  /// Reports the last checkpoint once it is written. With `wait`, waits for it.
  void finish_checkpoint(Progress& progress, bool wait);
  void poll_checkpoint_writer(Progress& progress);
  std::string describe_good_checkpoint() const;
  Error with_good_checkpoint(const Error& error) const;
  void update_status(RunStatus::State state);
  void write_failure_status(const std::exception& error) noexcept;
  void flush_records();
  Summary summary(const Progress& progress, const std::string& ended) const;
  /// A function that writes loss.svg and report.html, with the metrics and summary of this moment.
  std::function<void()> make_report_writer(const Progress& progress, const std::string& ended) const;
  void write_results(const Progress& progress, const std::string& ended);
  Replica::Settings replica_settings() const;
  bool is_rank0() const { return world_.rank() == 0; }
  /// "tokens" (also for bytes of a text) or "images".
  const char* unit_name() const;
  std::filesystem::path folder() const { return options_.output; }

  const Options& options_;
  Job& job_;
  Communicator world_;
  CollectiveErrors collective_errors_;
  std::filesystem::path checkpoints_path_, metrics_path_, status_path_;
  Schedule schedule_;

  std::unique_ptr<Workload> workload_;
  compute::cuda::OpenedGpu gpu_;  ///< moved into compute_ by build_replica(); empty on the CPU
  std::unique_ptr<compute::UpdateCompute<float>> compute_;
  std::function<double()> measure_peak_flops_;  ///< measures compute_
  std::unique_ptr<Replica> replica_;
  // Rank 0 only:
  std::optional<FolderLock> lock_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<EventFile> events_;  ///< with --tensorboard
  CheckpointFolder checkpoints_;
  std::unique_ptr<CheckpointWriter> writer_;
  std::filesystem::path good_checkpoint_;  ///< the newest one without skipped updates
  /// Error of writing metrics or a checkpoint; thrown on all ranks with the next step.
  std::optional<Error> output_error_;

  TrainingState state_;  ///< after the last ended step
  bool resumed_ = false;
  std::int64_t first_step_ = 0, validated_step_ = -1;
  std::int64_t last_checkpoint_step_ = -1;  ///< step of the last checkpoint that was started
  int signal_ = 0;

  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::vector<RankInfo> rank_info_;  ///< of all ranks
  FreeMemory free_memory_;           ///< of this host or GPU, before the run allocates
  double flops_per_prediction_ = 0, peak_flops_ = 0;
  double communication_seconds_ = 0;  ///< over all steps since this start
  std::size_t gradient_bytes_ = 0;    ///< reduced per step
  std::size_t gathered_bytes_ = 0;    ///< of parameters, gathered per step
};

}  // namespace muster
