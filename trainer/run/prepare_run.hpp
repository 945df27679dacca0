// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "checkpoint/training_state.hpp"
#include "compute/compute.hpp"
#include "config/options.hpp"
#include "muster/muster.hpp"
#include "report/summary.hpp"
#include "run/active_ranks.hpp"
#include "run/join_folder.hpp"
#include "run/output_folder.hpp"
#include "training/collective_errors.hpp"
#include "training/strategy.hpp"
#include "training/workload.hpp"

namespace muster {

/// What a run is made of, before its first step.
struct RunParts {
  std::unique_ptr<Workload> workload;
  std::unique_ptr<compute::UpdateCompute<float>> compute;
  std::unique_ptr<Strategy> strategy;  ///< on rank 0 with the initial parameters; null on a spare
  TrainingState state;                 ///< with this run's settings, at step 0
  Summary facts;                       ///< the values that do not change during the run
  std::string strategy_text;           ///< describe_strategy()
  std::string memory_limit;            ///< FreeMemory::where, for facts.free_bytes
  MemorySegments worker_memory;        ///< of each worker with a GPU, beside rank 0's facts.memory
};

/// Opens the GPU, the data and the output folder, checks that the ranks fit together and that the run fits
/// into memory, and builds the strategy. Collective over the job, as are `errors`.
/// @throws CollectiveAbort when a check refuses the run and its error is printed.
RunParts prepare_run(const Options& options, Job& job, const ActiveRanks& ranks, OutputFolder& output,
                     CollectiveErrors& errors);

/// The same for a process that joins a running job: without the strategy, which rebuild_strategy() builds.
/// Collective over the processes that join, as are `errors`.
RunParts prepare_joining_rank(const Options& options, Job& job, const ActiveRanks& ranks,
                              CollectiveErrors& errors);

/// estimate_joining_memory() of the run.
JoinFolder::MemoryEstimate joining_memory(const Options& options, Job& job, const ActiveRanks& ranks,
                                          const Workload& workload);

RunFingerprint fingerprint(const Options& options, const Workload& workload);

/// Builds the strategy anew on the active ranks after a loss or a growth, without parameters; the old one
/// must be gone. Collective over the job, as are `errors`.
/// @throws CollectiveAbort when a rank cannot, and its error is printed.
void rebuild_strategy(const Options& options, Job& job, const ActiveRanks& ranks, RunParts& parts,
                      CollectiveErrors& errors);

/// Sets the initial parameters, from --init-from or the seed, on this rank only.
/// @throws muster::Error when the weights cannot be read.
void initialize_parameters(const Options& options, Strategy& strategy);

}  // namespace muster
