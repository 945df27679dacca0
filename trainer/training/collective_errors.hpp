// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "muster/muster.hpp"

namespace muster {

/// Thrown on every rank once all have agreed to end and the reason has been printed.
class EndedTogether : public std::exception {
 public:
  explicit EndedTogether(int exit_code) : exit_code_(exit_code) {}
  int exit_code() const noexcept { return exit_code_; }
  const char* what() const noexcept override { return "ended together with the other ranks"; }

 private:
  int exit_code_;
};

/// Something that makes training impossible to go on with; exit code 1.
class TrainingFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a program ends with after this exception.
int exit_code_of(const std::exception& error) noexcept;
/// The one line for people.
void print_failure(const std::string& text);

/// Decisions that all ranks take alike, so that none waits for one that has left. Collective calls on
/// `world`.
class Agreement {
 public:
  explicit Agreement(Communicator world) : world_(std::move(world)) {}

  /// Runs `action` on this rank; when it threw on any rank, the lowest such rank prints its one line and all
  /// ranks throw EndedTogether. `action` must not communicate.
  void together(const std::function<void()>& action);
  /// Like together(), for work that only rank 0 does.
  void on_first_rank(const std::function<void()>& action);
  /// Each rank's value, by rank.
  std::vector<std::uint64_t> gather(std::uint64_t mine);
  /// Ranks whose value differs from rank 0's.
  std::vector<int> differing_ranks(std::uint64_t mine);

 private:
  Communicator world_;
};

}  // namespace muster
