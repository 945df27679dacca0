// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "transport/secure_channel.hpp"
#include "transport/flight_recorder.hpp"

namespace muster::control {

/// Where a rank is in one communicator: how many operations of the whole group it entered, and the name of
/// what it entered last, messages between two ranks included. Written by the
/// program's thread, read by the control plane's.
struct OperationState {
  std::atomic<std::uint64_t> number{0};
  std::atomic<const char*> operation{""};  ///< a string literal
  std::atomic<bool> inside{false};         ///< its program waits in that operation

  /// An operation of the whole group. `what`: a string literal.
  void enter(const char* what);
  /// Not counted: not every rank takes part.
  void enter_message(const char* what);
  /// The operation of this number; empty when it is not among the last few.
  const char* operation_at(std::uint64_t of) const;

  std::shared_ptr<FlightRecorder> last_call;  ///< of the process; may be null
  std::string group;

 private:
  std::array<std::atomic<const char*>, 32> recent_{};
};

/// Where a rank is in all its communicators. Thread-safe.
class OperationTracker {
 public:
  OperationTracker() : last_call_(std::make_shared<FlightRecorder>()) {}

  /// From now on and while the result lives.
  std::shared_ptr<OperationState> follow(const std::string& group);
  /// The answer to rank 0's question where this rank is in its operation `number` of `group`.
  Message here(const std::string& group, std::uint64_t number) const;
  const std::shared_ptr<FlightRecorder>& last_call() const { return last_call_; }
  /// "MPI_Init, all_reduce (operation 5 on communicator 'world')": what the program waits in, empty for
  /// nothing.
  std::string inside() const;

 private:
  std::shared_ptr<FlightRecorder> last_call_;
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<OperationState>> of_group_;
};

}  // namespace muster::control
