// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "communicator/backend.hpp"
#include "communicator/communicator_group.hpp"
#include "communicator/grouped_calls.hpp"
#include "communicator/host/hierarchical_all_reduce.hpp"
#include "communicator/host/inter_host_all_reduce.hpp"
#include "communicator/host/pairwise_reduce_scatter.hpp"
#include "communicator/host/shm_all_reduce.hpp"
#include "communicator/mpi/mpi_state.hpp"
#include "communicator/point_to_point.hpp"
#include "deadline.hpp"

namespace muster::detail {

/// A communicator on host memory. Operations use MPI's non-blocking calls, and every wait is bounded.
/// All-reduces use shared memory within a host, where possible, and messages between the hosts' leaders; the
/// other operations use Open MPI's.
class MpiCommunicator : public CommunicatorBackend, private PointToPoint {
 public:
  /// The communicator of all ranks of the job; `group` is theirs. Collective.
  static std::shared_ptr<MpiCommunicator> world(std::shared_ptr<MpiState> state, CommunicatorGroup group);
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const noexcept override { return group_.rank(); }
  int size() const noexcept override { return group_.size(); }
  const char* backend() const noexcept override { return "open-mpi"; }
  observe::OperationPosition position() const noexcept override { return group_.position(); }

  void all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op, Stream) override;
  void reduce(void* buffer, std::size_t count, DataType type, Reduction op, int root, Stream) override;
  void broadcast(void* buffer, std::size_t count, DataType type, int root, Stream) override;
  void all_gather(const void* in, void* out, std::size_t count, DataType type, Stream) override;
  void all_gather_v(const void* in, void* out, std::span<const std::size_t> counts, DataType type,
                    Stream) override;
  void reduce_scatter(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                      Stream) override;
  void all_to_all(const void* in, void* out, std::size_t count, DataType type, Stream) override;
  void send(const void* buffer, std::size_t count, DataType type, int to, Stream) override;
  void recv(void* buffer, std::size_t count, DataType type, int from, Stream) override;
  void barrier(Stream) override;
  std::shared_ptr<CommunicatorBackend> split(int color, int key) override;
  void synchronize(Stream) override {}
  void interrupt() noexcept override { interrupted_ = true; }
  void prefer_sleeping_waits(bool enabled) noexcept override { prefer_sleep_ = enabled; }
  std::vector<std::vector<std::uint64_t>> host_all_gather(const char* what,
                                                          const std::vector<std::uint64_t>& mine) override {
    require_open();
    return group_.host_all_gather(what, mine);
  }

  void begin_group() override;
  void end_group() override;
  void discard_group() noexcept override { grouped_.discard(); }
  bool in_group() const noexcept override { return grouped_.open(); }

 private:
  MpiCommunicator(std::shared_ptr<MpiState> state, CommunicatorGroup group, MPI_Comm comm)
      : state_(std::move(state)), group_(std::move(group)), comm_(comm) {}

  void require_open() const;
  // Runs an operation of the whole group, or records it when calls are grouped.
  template <typename Call>
  void collective(const char* operation, Call call);
  // Starts a message, adds its requests to requests_ and waits for them; or records it when calls are
  // grouped.
  template <typename Call>
  void message(const char* operation, int peer, Call call);

  void all_reduce_now(const void* in, void* out, std::size_t count, DataType type, Reduction op);
  void gather_in_pieces(const void* in, void* out, std::size_t count, DataType type, std::size_t piece);
  void start_send(const void* buffer, std::size_t bytes, int to, int tag);
  void start_recv(void* buffer, std::size_t bytes, int from, int tag);

  // Starts an operation and waits for it, within the timeout.
  template <typename Begin>
  void run(Begin begin) {
    start(begin);
    wait();
  }
  // Starts an operation for which wait() waits later.
  template <typename Begin>
  void start(Begin begin) {
    start(requests_, begin);
  }
  template <typename Begin>
  void start(Batch& batch, Begin begin) {
    auto& request = batch.emplace_back(MPI_REQUEST_NULL);
    ++in_flight_;
    std::optional<Deadline> deadline;
    int const code = call(deadline, [&] { return begin(&request); });
    if (code != MPI_SUCCESS) fail_mpi(code);
  }
  void wait() { wait(requests_); }
  void begin_send(const void* from, std::size_t bytes, int peer, Batch& batch) override;
  void begin_recv(void* to, std::size_t bytes, int peer, Batch& batch) override;
  // Spins for a while, then yields the core between polls.
  void wait(Batch& batch) override;
  // One call of MPI, while no other thread of this process is in MPI. The deadline starts at the first wait,
  // so that a message that needs no wait reads no clock.
  template <typename Call>
  int call(std::optional<Deadline>& deadline, Call make) {
    std::unique_lock lock(state_->mpi_mutex, std::try_to_lock);
    if (!lock.owns_lock()) lock_mpi(lock, deadline);
    require_open();
    return make();
  }
  void lock_mpi(std::unique_lock<std::mutex>& lock, std::optional<Deadline>& deadline);
  // `polls`: number of polls so far.
  void yield_core(unsigned polls);
  // Throws when the wait was interrupted, the job has failed or the deadline has passed. `polls`: number of
  // previous calls in this wait.
  void check_wait(unsigned polls, std::optional<Deadline>& deadline);
  [[noreturn]] void fail_mpi(int code);
  // Sets up shared memory for the ranks of each host, if all of them can open it. Collective.
  void set_up_shared_memory();
  std::unique_ptr<SharedSegment> exchange_segment(const std::vector<int>& host, int local_rank,
                                                  std::size_t bytes);
  // Called repeatedly during a wait in the shared memory.
  void on_shm_spin(unsigned polls);

  MPI_Datatype mpi(DataType type) const { return state_->types->type(type); }
  MPI_Op mpi(DataType type, Reduction op) const { return state_->types->op(type, op); }
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }

  std::shared_ptr<MpiState> state_;
  CommunicatorGroup group_;
  MPI_Comm comm_;
  GroupedCalls grouped_;
  Batch requests_;             // of the operations in flight
  std::size_t in_flight_ = 0;  // number of requests, those of messages between hosts included
  // At most one of the next three is set, for: all ranks on one host; several hosts; one rank on each host.
  // None if the ranks of a host share no memory.
  std::unique_ptr<ShmAllReduce> shm_;
  std::unique_ptr<HierarchicalAllReduce> hierarchical_;
  std::unique_ptr<InterHostAllReduce> inter_host_;
  std::unique_ptr<PairwiseReduceScatter> reduce_scatter_;  // created at the first use
  std::unique_ptr<std::byte[]> discarded_;  // for a piece of results that only another rank needs
  std::optional<Deadline> spin_deadline_;
  bool broken_ = false;
  std::atomic<bool> interrupted_{false};
  std::atomic<bool> prefer_sleep_{false};  // prefer_sleeping_waits()
};

}  // namespace muster::detail
