// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "communicator/communicator_group.hpp"
#include "session.hpp"

namespace simulator {

/// An exception that has nothing to do with Muster.
struct OwnError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The program of one rank in one session.
class Program {
 public:
  /// `job`: of this rank, with its control plane.
  Program(Simulator& simulator, const JobPlan& plan, JobResult& result, Session& session,
          std::shared_ptr<muster::detail::JobContext> job);
  /// Meets the other ranks, unless the rank `has_joined`.
  void join(bool has_joined);
  /// Makes the calls from number `first` on, and leaves. Returns the number of the call in which the job is
  /// to grow, when it comes to that.
  /// @throws Error: the failure of the job; OwnError.
  std::optional<std::size_t> run(std::size_t first);

 private:
  bool misbehaves(std::size_t call);
  void note_fault();
  void make_call(const Call& call, std::size_t number);
  void leave();
  void all_reduce(std::chrono::milliseconds wait, std::size_t count);
  // Makes `call`, and records how long this rank was in it. `members`: ranks of the session.
  void record_wait(const std::string& name, const std::vector<int>& members, std::chrono::milliseconds limit,
                   const std::function<void()>& call);

  Simulator& simulator_;
  const JobPlan& plan_;
  JobResult& result_;
  Session& session_;
  std::shared_ptr<muster::detail::JobContext> job_;
  int rank_;
  int process_;
  muster::control::ControlPlane& plane_;
  std::optional<muster::detail::CommunicatorGroup> world_;
};

}  // namespace simulator
