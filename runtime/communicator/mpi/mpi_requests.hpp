// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "communicator/communicator_group.hpp"
#include "communicator/host/core_yield.hpp"
#include "communicator/mpi/mpi_state.hpp"
#include "communicator/mpi/mpi_tags.hpp"
#include "communicator/point_to_point.hpp"
#include "deadline.hpp"

namespace muster::detail {

/// Starts the operations and messages of one MPI communicator, and waits for them. A wait ends with an error
/// when the job fails or the group's timeout passes.
class MpiRequests final : public PointToPoint {
 public:
  /// `group` outlives it.
  MpiRequests(std::shared_ptr<MpiState> state, CommunicatorGroup& group, MPI_Comm comm);

  /// @throws Error(ErrorCode::usage) after the job was left.
  void require_open() const {
    if (!state_->open) throw Error(ErrorCode::usage, "the communicator was used after the job was left");
  }
  const MpiLibrary& mpi() const noexcept { return mpi_; }
  /// Ranks share cores: they yield the core while they wait.
  bool yields() const noexcept { return state_->yield; }
  /// True after an error: MPI may then use the buffers of operations until the process ends.
  bool broken() const noexcept { return broken_; }
  /// Callable from another thread: the current wait, and every later one, throws.
  void interrupt() noexcept { interrupted_ = true; }
  /// Callable from another thread: waits sleep between polls.
  void prefer_sleep(bool enabled) noexcept { prefer_sleep_ = enabled; }

  /// Runs an operation. `begin` calls MPI once, fills the request and returns MPI's result.
  template <typename Begin>
  void run(Begin begin) {
    start(operation_, begin);
    wait(operation_);
  }
  /// To be called before the messages of a collective call with this digest.
  void begin_collective(std::uint64_t digest) { collective_tag_ = tags_.collective(digest); }
  /// Starts messages inside the collective.
  void begin_send(const void* from, std::size_t bytes, int peer, Batch& batch) override {
    if (bytes > 0) send(from, bytes, peer, collective_tag_, batch);
  }
  void begin_recv(void* to, std::size_t bytes, int peer, Batch& batch) override {
    if (bytes > 0) recv(to, bytes, peer, collective_tag_, batch);
  }
  /// Starts a send or recv of the program. wait_messages() completes all of them.
  void begin_message(const CollectiveCall& call);
  void wait_messages();
  /// Spins for a while, then yields the core between polls.
  void wait(Batch& batch) override;
  /// To be called repeatedly during a wait in shared memory, with the number of previous calls in this wait.
  void on_shm_spin(unsigned polls);

  /// Throws the job's failure, which is `code`, an error of MPI, unless a lost rank explains it.
  [[noreturn]] void fail(int code);
  /// As CommunicatorGroup::fail_mismatch().
  [[noreturn]] void fail_mismatch();
  /// Throws because the wait was interrupted, the job has failed or the deadline has passed.
  [[noreturn]] void fail_wait();

 private:
  // One request of a recv of the program.
  struct PostedMessage {
    CollectiveCall recv;
    int tag;
    std::size_t request;  // its place in messages_
    std::size_t at;       // its first byte in the buffer
    std::size_t bytes;
  };

  // A message of 0 bytes, too, is one message.
  void send(const void* from, std::size_t bytes, int peer, int tag, Batch& batch);
  void recv(void* to, std::size_t bytes, int peer, int tag, Batch& batch);
  // Fails the job when the counterpart of an awaited message has another type or count.
  void check_posted();
  // Null for any other request of `batch`.
  const PostedMessage* find_posted(const Batch& batch, std::size_t request) const;
  // False if a recv of the program got fewer bytes than it is for: two counts can have the same tag.
  bool is_whole(const Batch& batch, std::size_t request, const MPI_Status& status) const;
  std::size_t bytes_of(const MPI_Status& status) const;
  // Throws the job's failure: this request ended with `code`, or is not whole.
  [[noreturn]] void fail_request(const Batch& batch, std::size_t request, int code, const MPI_Status& status);
  // The same when a recv met a message of another type or count: `sent`.
  [[noreturn]] void fail_message(const CollectiveCall& recv, const std::string& sent);

  template <typename Begin>
  void start(Batch& batch, Begin begin) {
    auto& request = batch.emplace_back(mpi_.request_null);
    ++in_flight_;
    int const code = call([&] { return begin(&request); });
    if (code != MPI_SUCCESS) fail(code);
  }
  // One call of MPI, while no other thread of this process is in MPI.
  template <typename Call>
  int call(Call make) {
    std::unique_lock lock(state_->mpi_mutex, std::try_to_lock);
    if (!lock.owns_lock()) lock_mpi(lock);
    require_open();
    return make();
  }
  void lock_mpi(std::unique_lock<std::mutex>& lock);
  // `polls`: number of polls so far.
  void yield_core(unsigned polls);
  // Calls fail_wait() when the wait must end. `polls`: number of previous calls in this wait.
  void check_wait(unsigned polls);

  std::shared_ptr<MpiState> state_;
  const MpiLibrary& mpi_;
  CommunicatorGroup& group_;
  MPI_Comm comm_;
  MpiTags tags_;
  int collective_tag_ = 0;
  Batch operation_;
  Batch messages_;                     // of the program
  std::vector<PostedMessage> posted_;  // among them, in their order
  std::size_t in_flight_ = 0;          // number of requests
  bool broken_ = false;
  std::atomic<bool> interrupted_{false};
  std::atomic<bool> prefer_sleep_{false};
  CoreYield core_;
};

}  // namespace muster::detail
