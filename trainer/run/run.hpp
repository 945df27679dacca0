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

/// One rank's run, from data to the last checkpoint. Every function is collective.
class Run {
 public:
  Run(const Options& options, Job& job);
  int train();

 private:
  void prepare();
  void open_gpu();
  void load_data();
  void require_equal_everywhere();
  void require_memory();
  void build_replica();
  template <typename Real>
  void build_replica_on(std::unique_ptr<compute::Compute<Real>> compute, Communicator tensors);
  void examine_machine();
  std::optional<CheckpointFolder::Found> newest_checkpoint();
  std::optional<CheckpointFolder::Found> named_checkpoint();
  void resume();
  void announce();
  void announce_memory() const;

  void loop(Progress& progress);
  /// Begins the step after those that were.
  void begin_step();
  /// Ends the oldest steps until `left` are under way; true when a rank wants to stop.
  bool end_steps(Progress& progress, std::size_t left);
  void record(Progress& progress, std::int64_t done, const StepResult& result, double learning_rate);
  void tell_skipped(Progress& progress, const StepResult& result);
  int stop_signal();
  /// Sets signal_ when a signal came meanwhile, and then tells no loss.
  void validate(Progress& progress);
  /// The checkpoint is from after a step whose validation a signal cut.
  bool owes_validation();
  bool is_due(std::int64_t every) const { return is_due(every, state_.step); }
  static bool is_due(std::int64_t every, std::int64_t step) { return every > 0 && step % every == 0; }
  /// Something needs to know all about the first `step` steps before the next one begins.
  bool is_awaited(std::int64_t step) const {
    return step == options_.steps || is_due(options_.eval_every, step) ||
           is_due(options_.checkpoint_every, step);
  }
  void finish(Progress& progress);
  /// Copies what a checkpoint needs, which rank 0 then writes beside the steps that follow.
  void checkpoint(Progress& progress);

  // Rank 0 only:
  /// Tells what has become of the last checkpoint, if it is written.
  void settle(Progress& progress, bool wait);
  void look_after_writing(Progress& progress);
  std::string name_good_checkpoint() const;
  Error with_good_checkpoint(const Error& error) const;
  void tell_status(RunStatus::State state);
  void tell_failure(const std::exception& error) noexcept;
  void flush_records();
  Summary summary(const Progress& progress, const std::string& ended) const;
  /// Writes the pictures of what there is now, whenever it is called.
  std::function<void()> pictures(const Progress& progress, const std::string& ended) const;
  void write_results(const Progress& progress, const std::string& ended);
  Replica::Settings replica_settings() const;
  bool first() const { return world_.rank() == 0; }
  /// What the rates count: tokens (a text's are bytes) or images.
  const char* things() const;
  std::filesystem::path folder() const { return options_.output; }

  const Options& options_;
  Job& job_;
  Communicator world_;
  Agreement agreement_;
  std::filesystem::path checkpoints_path_, metrics_path_, status_path_;
  Schedule schedule_;

  std::unique_ptr<Workload> workload_;
  compute::cuda::OpenedGpu gpu_;  ///< until the replica is built; empty on the CPU
  std::unique_ptr<compute::UpdateCompute<float>> compute_;
  std::function<double()> measure_peak_;  ///< of compute_
  std::unique_ptr<Replica> replica_;
  // Rank 0 only:
  std::optional<FolderLock> lock_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<EventFile> events_;  ///< when they are wanted
  CheckpointFolder checkpoints_;
  std::unique_ptr<CheckpointWriter> writer_;
  std::filesystem::path good_checkpoint_;  ///< the newest from before updates were skipped
  std::optional<Error> output_error_;      ///< what kept it from writing metrics or a checkpoint

  TrainingState state_;  ///< after the last step that has ended
  bool resumed_ = false;
  std::int64_t first_step_ = 0, validated_step_ = -1;
  std::int64_t asked_step_ = -1;  ///< of the last checkpoint that was begun
  int signal_ = 0;

  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::vector<RankFacts> facts_;  ///< of all ranks
  FreeMemory free_memory_;        ///< of this host, before anything was asked for
  double flops_per_prediction_ = 0, peak_flops_ = 0;
  double communication_seconds_ = 0;  ///< of all steps of this start
  std::size_t gradient_bytes_ = 0;    ///< reduced in a step
  std::size_t gathered_bytes_ = 0;    ///< of parameters, in a step
};

}  // namespace muster
