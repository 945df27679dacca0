// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>

#include "session.hpp"

namespace simulator {

/// An exception that has nothing to do with Muster.
struct OwnError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The program of one rank in one session.
class Program {
 public:
  Program(Simulator& simulator, const JobPlan& plan, JobResult& result, Session& session, int rank,
          muster::control::ControlPlane& plane);
  /// Makes the calls from number `first` on, and leaves. The first time it joins before, unless it
  /// `has_joined`. Returns the number of the call in which the job is to grow, when it comes to that.
  /// @throws Error: the failure of the job; OwnError.
  std::optional<std::size_t> run(std::size_t first, bool has_joined);

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
