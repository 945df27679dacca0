// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "control/channel.hpp"
#include "control/failure.hpp"
#include "control/leader.hpp"
#include "deadline.hpp"
#include "muster/job.hpp"

namespace muster::control {

using Blob = std::vector<std::uint8_t>;

/// Where a rank is in one communicator: how many operations of the whole group it entered, and the name of
/// what it entered last, messages between two ranks included. Written by the
/// program's thread, read by the control plane's.
struct Activity {
  std::atomic<std::uint64_t> number{0};
  std::atomic<const char*> operation{""};  ///< a string literal
};

/// A star of small host messages: every rank is connected to rank 0. One thread of its own per rank, asleep
/// unless a message comes. A failure that any rank meets ends the plane on all of them: every later call
/// throws it. Calls are thread-safe.
class Plane {
 public:
  /// Rank 0's, before anybody can come in: port() is known from here on.
  static std::shared_ptr<Plane> listen(const Key& key);
  std::uint16_t port() const;
  /// Lets the ranks of the roster in.
  void lead(std::vector<Hello> roster);

  /// Another rank's: connects to rank 0 at one of its addresses, trying until the deadline.
  /// @throws Error(Fault::deadline), with the last reason.
  static std::shared_ptr<Plane> follow(int rank, std::vector<Hello> roster,
                                       const std::vector<std::string>& addresses, std::uint16_t port,
                                       const Key& key, const Deadline& deadline);

  /// As abandon().
  ~Plane();
  Plane(const Plane&) = delete;
  Plane& operator=(const Plane&) = delete;

  /// Collective over `members` (global ranks, ascending or not, the same on each): every member's blob, in
  /// the order of `members`.
  /// @throws Error(Fault::deadline) naming who did not come, or the failure of the job.
  std::vector<Blob> gather(const std::string& name, const std::vector<int>& members, const Blob& mine,
                           std::chrono::milliseconds wait);
  /// The blob of `root`, a global rank.
  Blob broadcast(const std::string& name, const std::vector<int>& members, int root, const Blob& mine,
                 std::chrono::milliseconds wait);
  /// Of all ranks.
  void barrier(const std::string& name, std::chrono::milliseconds wait);

  /// True once the job has failed; cheap enough for waiting loops.
  bool failed() const noexcept { return failed_.load(std::memory_order_relaxed); }
  /// Throws the job's failure, if there is one. A rank that is not to speak waits half a second first, so
  /// that the launcher, which may end the job with the first process that ends, does not silence the one that
  /// speaks.
  void check() const;

  /// Where this rank is in the communicator `group`, from now on and while the result lives.
  std::shared_ptr<Activity> follow_activity(const std::string& group);
  /// This rank waited in vain in an operation of `group`: asks where every member is and throws what comes of
  /// it. `number` is 0 for a message between two ranks, which says nothing about where the others should be.
  [[noreturn]] void stalled(const std::string& group, const std::vector<int>& members, std::uint64_t number,
                            const std::string& operation, std::chrono::milliseconds waited);

  /// The job's last barrier: from here on a connection that ends is no loss.
  void last_barrier(const std::string& name, std::chrono::milliseconds wait);
  /// After the last barrier: ends connections, rank 0 when the others have.
  void leave();
  /// Ends connections at once: the other ranks take this for a loss.
  void abandon() noexcept;

 private:
  explicit Plane(int rank);

  std::vector<Blob> round(const std::string& name, const std::vector<int>* members, int root,
                          const Blob& mine, std::chrono::milliseconds wait, bool last = false);
  void start_thread();
  void run();
  void broke(const std::string& reason) noexcept;
  void post(Message message);
  void receive(const Message& message);
  void answer_where(const Message& message);
  void fail(const Failure& failure);
  void lose_leader(const std::string& reason);

  int rank_;
  Key key_{};
  std::vector<Hello> roster_;
  asio::io_context io_;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;  // while the thread runs
  std::unique_ptr<Leader> leader_;                                                  // on rank 0
  std::shared_ptr<Channel> channel_;                                                // on the others
  std::thread thread_;
  std::atomic<bool> failed_{false};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::vector<Blob>> results_;
  std::optional<Failure> failure_;
  bool leaving_ = false;
  std::map<std::string, std::weak_ptr<Activity>> activities_;
};

}  // namespace muster::control
