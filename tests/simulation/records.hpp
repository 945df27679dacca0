// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "simulator.hpp"

namespace simulator {

/// A rank's time in a collective call. Times are since the start.
struct Wait {
  Duration begin{};
  std::optional<Duration> end{};  ///< empty: the process ended in it
  bool failed = false;            ///< the call threw
};

/// A collective call.
struct CallRecord {
  std::vector<int> members;   ///< the processes that are to make it
  Duration limit{};           ///< its deadline
  std::map<int, Wait> waits;  ///< by process
};

/// A job from its join to its end, or to the next loss or growth.
struct SessionRecord {
  std::vector<int> members;                 ///< processes, by rank
  std::map<std::string, CallRecord> calls;  ///< by the name that they have in warnings
};

/// A call of the function that the program gave to Job::on_rank_lost().
struct Save {
  Duration when;
  bool on_program_thread;
  std::string what;
};

/// A loss that a call of the program threw.
struct ThrownLoss {
  Duration when;
  std::string what;
};

/// One process in one session.
struct Stay {
  std::size_t session = 0;  ///< in JobResult::sessions
  Duration begin{};
  bool registered = false;  ///< it has called on_rank_lost()
  std::vector<Save> saves{};
  std::optional<ThrownLoss> loss{};
  bool overlooked_failure =
      false;  ///< it knew of the job's failure, and its next collective call did not throw
};

}  // namespace simulator
