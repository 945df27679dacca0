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
#include "communicator/point_to_point.hpp"
#include "communicator/mpi/mpi_state.hpp"
#include "deadline.hpp"

namespace muster::detail {

/// A communicator on host memory. Everything is non-blocking underneath and every wait bounded. Ranks of one
/// host all-reduce in memory that they share, where they can, and hosts with messages between their leaders;
/// everything else is Open MPI's.
class MpiCommunicator : public CommunicatorBackend, private PointToPoint {
 public:
  /// All ranks of the job, which `group` holds. Collective.
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
  void prefer_sleeping_waits(bool computing) noexcept override { behind_ = computing; }
  std::vector<std::vector<std::uint64_t>> tell_all(const char* what,
                                                   const std::vector<std::uint64_t>& mine) override {
    require_open();
    return group_.tell_all(what, mine);
  }

  void begin_group() override;
  void end_group() override;
  void drop_group() noexcept override { grouped_.drop(); }
  bool in_group() const noexcept override { return grouped_.open(); }

 private:
  MpiCommunicator(std::shared_ptr<MpiState> state, CommunicatorGroup group, MPI_Comm comm)
      : state_(std::move(state)), group_(std::move(group)), comm_(comm) {}

  void require_open() const;
  // Runs an operation of the whole group, or keeps it when calls are grouped.
  template <typename Call>
  void collective(const char* operation, Call call);
  // Starts a message, whose requests it adds to requests_, and waits for it; or keeps it likewise.
  template <typename Call>
  void message(const char* operation, int peer, Call call);

  void reduce_to_all(const void* in, void* out, std::size_t count, DataType type, Reduction op);
  void gather_in_pieces(const void* in, void* out, std::size_t count, DataType type, std::size_t piece);
  void start_send(const void* buffer, std::size_t bytes, int to, int tag);
  void start_recv(void* buffer, std::size_t bytes, int from, int tag);

  // Starts an operation and waits for it, under the deadline.
  template <typename Begin>
  void run(Begin begin) {
    start(begin);
    wait();
  }
  // Starts a part of what wait() waits for.
  template <typename Begin>
  void start(Begin begin) {
    start(requests_, begin);
  }
  template <typename Begin>
  void start(Batch& batch, Begin begin) {
    auto& request = batch.emplace_back(MPI_REQUEST_NULL);
    ++under_way_;
    std::optional<Deadline> deadline;
    int const code = call(deadline, [&] { return begin(&request); });
    if (code != MPI_SUCCESS) give_up(code);
  }
  void wait() { wait(requests_); }
  void begin_send(const void* from, std::size_t bytes, int peer, Batch& batch) override;
  void begin_recv(void* to, std::size_t bytes, int peer, Batch& batch) override;
  // Looks for a while, then gives the core away between looks.
  void wait(Batch& batch) override;
  // One call of MPI, alone among this process's threads. A deadline begins at the first wait under it: the
  // clock is not read on the way of a message.
  template <typename Call>
  int call(std::optional<Deadline>& deadline, Call make) {
    std::unique_lock lock(state_->calls, std::try_to_lock);
    if (!lock.owns_lock()) wait_for_turn(lock, deadline);
    require_open();
    return make();
  }
  void wait_for_turn(std::unique_lock<std::mutex>& lock, std::optional<Deadline>& deadline);
  // After so many looks.
  void give_core_away(unsigned looks);
  // Throws when waiting on is in vain, asked for the nth time.
  void require_hope(unsigned looks, std::optional<Deadline>& deadline);
  [[noreturn]] void give_up(int code);
  // Gives the ranks of each host memory of their own, when all can open it. Collective.
  void share_memory();
  std::unique_ptr<SharedSegment> exchange_segment(const std::vector<int>& host, int place, std::size_t bytes);
  // Called again and again while another rank is waited for in that memory.
  void be_patient(unsigned looks);

  MPI_Datatype mpi(DataType type) const { return state_->types->type(type); }
  MPI_Op mpi(DataType type, Reduction op) const { return state_->types->op(type, op); }
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }

  std::shared_ptr<MpiState> state_;
  CommunicatorGroup group_;
  MPI_Comm comm_;
  GroupedCalls grouped_;
  Batch requests_;             // of what is under way
  std::size_t under_way_ = 0;  // requests, of messages between hosts too
  // How to all-reduce, one of them, or none where ranks of a host share no memory: all ranks on one host,
  // several hosts, one rank on each host.
  std::unique_ptr<ShmAllReduce> shared_;
  std::unique_ptr<HierarchicalAllReduce> hosts_;
  std::unique_ptr<InterHostAllReduce> leaders_;
  std::unique_ptr<PairwiseReduceScatter> reduce_scatter_;  // made when first wanted
  std::unique_ptr<std::byte[]> dropped_;                   // a piece of results that only another rank wants
  std::optional<Deadline> patient_until_;
  bool broken_ = false;
  std::atomic<bool> interrupted_{false};
  std::atomic<bool> behind_{false};  // prefer_sleeping_waits()
};

}  // namespace muster::detail
