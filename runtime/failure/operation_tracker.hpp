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
#include <utility>
#include <vector>

#include "muster/collective_call.hpp"
#include "protocol/messages.hpp"
#include "transport/flight_recorder.hpp"

namespace muster::control {

/// The name of sends and receives that wait together.
inline constexpr const char* grouped_messages = "grouped messages";

/// The messages of one communicator that this rank began, by the other rank there. The program's thread
/// writes, the control thread reads.
struct MessageCounters {
  using Counters = std::vector<std::atomic<std::uint32_t>>;
  explicit MessageCounters(std::size_t ranks) : sent(ranks), received(ranks) {}
  Counters sent, received;
};

/// The ranks for which this one waits in the operations of a communicator.
struct WaitGroup {
  WaitGroup(std::vector<int> ranks, protocol::Message encoded, int own, bool gpu)
      : members(std::move(ranks)),
        encoded_members(std::move(encoded)),
        rank(own),
        on_gpu(gpu),
        messages(members.size()) {}
  std::vector<int> members;           ///< ranks in the job
  protocol::Message encoded_members;  ///< as encode_ranks() encodes them
  int rank;                           ///< this one there
  bool on_gpu;                        ///< some operations need fewer ranks there
  MessageCounters messages;
};

/// A rank's state in one communicator: how many collective operations it entered, and the name of the last
/// operation, point-to-point messages included. The program's thread writes, the control thread reads. A call
/// writes it without locked instructions, which would take longer than the rest of a short call's
/// bookkeeping.
struct OperationState {
  std::atomic<std::uint64_t> number{0};
  std::atomic<const char*> operation{""};  ///< a string literal
  std::atomic<bool> inside{false};         ///< the program waits in that operation
  std::atomic<int> peer{-1};               ///< of the last message, if it was a single one
  std::atomic<bool> long_wait{false};      ///< the program has waited for about a second in that operation
  std::atomic<bool> watched{false};        ///< `inside` is of a thread of Muster: the program may go on
  std::atomic<int> background{0};          ///< calls that a thread of Muster makes or will make here
  std::atomic<bool> awaited{false};        ///< the program waits until some of these have ended

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
  /// Sets the ranks for which this one waits, unless they are set already.
  WaitGroup& set_wait_group(std::vector<int> members, protocol::Message encoded, int rank,
                            bool on_gpu = false);
  bool is_tracked() const { return wait_group_ != nullptr; }
  /// The call in which the rank waits, if it is known what it needs.
  protocol::Wait current_wait() const;
  /// False if the rank has not entered this call of another rank.
  bool may_have_entered(const protocol::Wait& wait) const;

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
  std::unique_ptr<WaitGroup> owned_wait_group_;
  std::atomic<const WaitGroup*> wait_group_{nullptr};  // the same, for the control thread
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
  /// The program makes a call on this thread.
  void note_caller() {
    if (caller_.load(std::memory_order_relaxed) != thread_token_) note_other_caller();
  }
  /// The answer to rank 0's query.
  protocol::RankState rank_state(const protocol::RankStateQuery& query) const;
  const std::shared_ptr<FlightRecorder>& flight_recorder() const { return flight_recorder_; }

 private:
  // Of this thread, from its first call on; no other thread has it while caller_token_ refers to it.
  inline static thread_local const char* thread_token_ = nullptr;
  void note_other_caller();
  void add_waits(protocol::RankState& reply, const protocol::RankStateQuery& query) const;

  std::shared_ptr<FlightRecorder> flight_recorder_;
  std::atomic<const char*> caller_{""};  // the token of the thread that made the last call
  std::weak_ptr<const char> caller_token_;
  bool several_callers_ = false;  // threads, at the same time
  bool has_ended_communicators_ = false;
  mutable std::mutex mutex_;
  std::map<std::string, std::weak_ptr<OperationState>> by_communicator_;
  std::multiset<std::string> job_calls_;
};

}  // namespace muster::control
