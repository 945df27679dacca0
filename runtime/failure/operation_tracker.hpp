// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "muster/collective_call.hpp"
#include "protocol/messages.hpp"
#include "transport/flight_recorder.hpp"

namespace muster::control {

/// A rank's state in one communicator: how many collective operations it entered, and the name of the last
/// operation, point-to-point messages included. The program's thread writes, the control thread reads. A call
/// writes it without locked instructions, which would take longer than the rest of a short call's
/// bookkeeping.
struct OperationState {
  std::atomic<std::uint64_t> number{0};
  std::atomic<const char*> operation{""};  ///< a string literal
  std::atomic<bool> inside{false};         ///< the program waits in that operation

  /// Counts a collective operation. `name`: a string literal.
  void enter(const char* name);
  /// Counts a call of one, and returns digest(), which a short call would wait for if it read it from memory.
  std::uint64_t enter(const detail::CollectiveCall& call);
  /// A point-to-point message. Not counted, because not every rank takes part.
  void enter_point_to_point(const char* name);
  /// The operation with this number, with the arguments of a call; empty when it is not among the last few.
  std::string operation_at(std::uint64_t sequence) const;
  /// Of all operations so far: equal on all ranks as long as they make the same calls in the same order.
  std::uint64_t digest() const { return recent_[number.load() % recent_.size()].digest.load(); }
  /// digest() after the operation with this number, then after each one before it, as far as they are known.
  std::vector<std::uint64_t> digests_until(std::uint64_t sequence) const;

  std::shared_ptr<FlightRecorder> flight_recorder;  ///< of the process; may be null
  std::string group;

 private:
  struct CallRecord {
    std::atomic<const char*> name;
    std::atomic<std::uint64_t> arguments;  ///< packed_arguments() of a call; no_call
    std::atomic<std::uint64_t> count;      ///< of a call
    std::atomic<std::uint64_t> digest;     ///< of the operations up to this one
  };
  // Of an operation without arguments, and of one whose counts for each rank are not kept.
  static constexpr std::uint64_t no_call = ~std::uint64_t{0};

  std::uint64_t enter(const char* name, std::uint64_t arguments, std::uint64_t count,
                      std::uint64_t operation_digest);
  bool is_recent(std::uint64_t sequence) const {
    auto const now = number.load();
    // The program may be writing the next record already.
    return sequence <= now && now + 1 < sequence + recent_.size();
  }

  std::array<CallRecord, 32> recent_{};
  // Of what came before the next operation. It is mixed after an operation has begun, because the next one
  // would wait for it.
  std::uint64_t earlier_operations_ = 0;
};

/// A rank's state in all its communicators, and in the calls of the whole job. Thread-safe.
class OperationTracker {
 public:
  OperationTracker() : flight_recorder_(std::make_shared<FlightRecorder>()) {}

  /// The program waits in a call of the whole job, such as "barrier 'epoch'", while this object lives.
  class JobCall {
   public:
    JobCall(OperationTracker& tracker, const std::string& call);
    ~JobCall();
    JobCall(const JobCall&) = delete;
    JobCall& operator=(const JobCall&) = delete;

   private:
    OperationTracker& tracker_;
    std::multiset<std::string>::const_iterator call_;
  };

  /// Tracks the communicator `group` while the result lives.
  std::shared_ptr<OperationState> register_communicator(const std::string& group);
  /// The answer to rank 0's query.
  protocol::RankState rank_state(const protocol::RankStateQuery& query) const;
  const std::shared_ptr<FlightRecorder>& flight_recorder() const { return flight_recorder_; }

 private:
  std::shared_ptr<FlightRecorder> flight_recorder_;
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<OperationState>> by_communicator_;
  std::multiset<std::string> job_calls_;
};

}  // namespace muster::control
