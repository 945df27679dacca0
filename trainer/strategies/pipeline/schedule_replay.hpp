// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "strategies/pipeline/schedule.hpp"

namespace muster::pipeline {

/// Seconds, or any other unit, of each operation of one stage. A backward pass takes input + weight.
struct OperationTimes {
  double forward = 1, input = 1, weight = 1;
  double of(OperationKind kind) const;
};

struct ReplaySettings {
  /// Of each stage; one for all stages when there is one element.
  std::vector<OperationTimes> times{OperationTimes{}};
  double latency = 0;  ///< of a message between two ranks
  /// Messages that a rank can have sent to another one before that one takes the first; more wait. 0: any
  /// number.
  int capacity = 0;
};

struct TimedOperation {
  Operation operation;
  double begin = 0, end = 0;
};

/// A run of a schedule.
struct Replay {
  /// Why the ranks wait for each other for ever, in one line; empty: they do not. The rest then describes
  /// the operations up to there.
  std::string deadlock;
  std::vector<std::vector<TimedOperation>> ranks;
  double makespan = 0;
  double idle_share = 0;  ///< of the makespan, mean over the ranks
};

/// Runs the lists of all ranks of a pipeline: each rank's operations in their order, each as soon as the
/// messages that it needs have arrived. Sends do not block. Proves that the ranks do not wait for each other
/// for ever.
Replay replay_schedule(const std::vector<OperationList>& lists, const ReplaySettings& settings = {});

/// The most messages between two ranks in one direction that can be sent and not received, however long each
/// operation takes.
int most_queued_messages(const std::vector<OperationList>& lists);

}  // namespace muster::pipeline
