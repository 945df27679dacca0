// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "job.hpp"
#include "network.hpp"

namespace simulator {

/// One call of the program. All ranks have the same list.
struct Call {
  enum class Kind { barrier, gather, broadcast, store, query, compute, all_reduce };
  Kind kind;
  std::vector<int> members;
  int root = 0;
  std::chrono::milliseconds wait{0};
  std::chrono::milliseconds longest_computation{0};
};

/// What the seed chooses before a job starts. Ranks are those of the start.
struct JobPlan {
  struct Rank {
    Duration start_delay{};
    std::vector<Duration> computations;   ///< by call
    std::optional<FaultKind> misbehaves;  ///< when it comes to the call
    std::size_t misbehaves_at = 0;
    Duration save_time{};  ///< that its function for on_rank_lost() takes
  };

  AfterLoss after_loss = AfterLoss::end;
  Duration launcher_delay{};  ///< from the first bad exit to the end of all others
  NetworkOptions network;
  std::vector<int> host_of;
  std::vector<Rank> ranks;
  std::vector<Call> calls;
  std::vector<Fault> faults;
  int first_ranks = 0;                 ///< those of the start; the others are new processes
  std::optional<std::size_t> grow_at;  ///< the call in which the job grows
  std::chrono::milliseconds stall_warning{0};
  bool saves = false;        ///< the programs call on_rank_lost()
  bool calls_again = false;  ///< after a loss the programs make another call
  std::chrono::milliseconds save_deadline{0};
};

JobPlan choose_plan(Simulator& simulator, const JobOptions& options);

}  // namespace simulator
