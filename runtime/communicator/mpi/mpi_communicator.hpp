// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <memory>

#include "communicator/communicator_base.hpp"
#include "communicator/host/host_all_reduce.hpp"
#include "communicator/host/message_broadcast.hpp"
#include "communicator/host/pairwise_reduce_scatter.hpp"
#include "communicator/mpi/mpi_requests.hpp"
#include "communicator/mpi/mpi_state.hpp"

namespace muster::detail {

/// A communicator on host memory. All-reduces and barriers use shared memory within a host, where possible,
/// and messages between the hosts' leaders. On one host all short collectives use shared memory. The other
/// operations use messages from rank to rank. Every wait is bounded, and ranks that make different calls take
/// no data from each other.
class MpiCommunicator : public CommunicatorBase {
 public:
  /// The communicator of all ranks of the job; `group` is theirs. Collective.
  static std::shared_ptr<MpiCommunicator> world(std::shared_ptr<MpiState> state, CommunicatorGroup group);
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  const char* backend() const noexcept override { return "open-mpi"; }
  void run(const CollectiveCall& call, Stream stream) override;
  std::shared_ptr<CommunicatorBackend> split(int color, int key) override;
  bool reduces_in_shared_memory() override { return all_reduce_ && all_reduce_->reduces_in_shared_memory(); }
  void synchronize(Stream) override {}
  void interrupt() noexcept override { requests_.interrupt(); }
  void prefer_sleeping_waits(bool enabled) noexcept override { requests_.prefer_sleep(enabled); }
  void run_group(GroupedCalls::Calls calls) override;

 private:
  // Collective over the group, whose ranks are those of `comm`.
  MpiCommunicator(std::shared_ptr<MpiState> state, CommunicatorGroup group, MPI_Comm comm);

  void require_open() const override { requests_.require_open(); }
  void collective(const CollectiveCall& given, std::uint64_t digest);

  void reduce(const CollectiveCall& call, std::uint64_t digest);
  // counts[r]: the elements of rank r's share.
  void all_gather(const CollectiveCall& call, std::span<const std::size_t> counts);
  void reduce_scatter(const CollectiveCall& call, std::span<const std::size_t> counts);
  void all_to_all_v(const CollectiveCall& call);
  // Sends a slice of `in` to each rank and receives one into `out`: elements of `size` bytes.
  void exchange_slices(const void* in, void* out, std::size_t size, std::span<const std::size_t> send_counts,
                       std::span<const std::size_t> recv_counts);

  std::shared_ptr<MpiState> state_;
  MPI_Comm comm_;
  MpiRequests requests_;
  std::unique_ptr<HostAllReduce> all_reduce_;  // null on a single rank
  MessageBroadcast broadcast_;
  std::unique_ptr<PairwiseReduceScatter> reduce_scatter_;  // created at the first use
  std::unique_ptr<std::byte[]> discarded_;  // for a piece of results that only another rank needs
  // Of an all_to_all_v: what this rank sends to each rank, and what each rank sends to this one.
  std::unique_ptr<std::uint64_t[]> slice_counts_;
};

}  // namespace muster::detail
