// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

#include "session.hpp"

namespace simulator {

/// An exception that has nothing to do with Muster.
struct OwnError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The program of one rank in one session, from the join to the last barrier.
class Program {
 public:
  Program(Simulator& simulator, const JobPlan& plan, JobResult& result, Session& session, int rank,
          muster::control::ControlPlane& plane);
  /// @throws Error: the failure of the job; OwnError.
  void run();

 private:
  bool misbehaves(std::size_t call);
  void note_fault();
  void make_call(const Call& call, std::size_t number);
  void all_reduce(std::chrono::milliseconds wait, std::size_t count);

  Simulator& simulator_;
  const JobPlan& plan_;
  JobResult& result_;
  Session& session_;
  int rank_;
  int process_;
  muster::control::ControlPlane& plane_;
  std::shared_ptr<muster::control::OperationState> world_;
  std::uint64_t reported_ = 0;  // calls of the world that rank 0 compares
};

}  // namespace simulator
