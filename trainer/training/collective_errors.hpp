// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "muster/muster.hpp"

namespace muster {

/// Thrown on every rank after one rank has printed the error. All ranks end with this exit code.
class CollectiveAbort : public std::exception {
 public:
  explicit CollectiveAbort(int exit_code) : exit_code_(exit_code) {}
  int exit_code() const noexcept { return exit_code_; }
  const char* what() const noexcept override {
    return "all ranks ended because of an error that was printed";
  }

 private:
  int exit_code_;
};

/// An error after which training cannot continue; exit code 1.
class TrainingError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The process exit code for this exception.
int exit_code_for(const std::exception& error) noexcept;
/// The line about this exception, for print_error().
std::string describe_error(const std::exception& error);
/// Prints the error line to stderr, after flushing stdout.
void print_error(const std::string& text);

/// Propagates an error of one rank to all ranks, so that no rank waits for one that has exited. The calls are
/// collective on `world`.
class CollectiveErrors {
 public:
  explicit CollectiveErrors(Communicator world) : world_(std::move(world)) {}

  /// Runs `action` on this rank. When it throws on any rank, the lowest such rank prints its error and all
  /// ranks throw CollectiveAbort. `action` must not communicate.
  void run_on_all(const std::function<void()>& action);
  /// Like run_on_all(), but only rank 0 runs `action`.
  void run_on_rank0(const std::function<void()>& action);
  /// Every rank's value, indexed by rank; `lost` for a rank without which the job goes on.
  std::vector<std::uint64_t> gather(std::uint64_t mine, std::uint64_t lost = 0);
  /// Ranks whose value differs from rank 0's.
  std::vector<int> differing_ranks(std::uint64_t mine);

 private:
  Communicator world_;
};

}  // namespace muster
