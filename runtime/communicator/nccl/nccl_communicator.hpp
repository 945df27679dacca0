// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "communicator/communicator_base.hpp"
#include "communicator/nccl/nccl_comm.hpp"
#include "communicator/nccl/nccl_state.hpp"
#include "deadline.hpp"

namespace muster::detail {

/// A communicator on GPU memory.
class NcclCommunicator : public CommunicatorBase, public std::enable_shared_from_this<NcclCommunicator> {
 public:
  /// Collective over the group.
  static std::shared_ptr<NcclCommunicator> init(std::shared_ptr<NcclState> state, CommunicatorGroup group,
                                                const Deadline& deadline);

  const char* backend() const noexcept override { return "nccl"; }
  void run(const CollectiveCall& call, Stream stream) override;
  std::shared_ptr<CommunicatorBackend> split(int color, int key) override;
  void synchronize(Stream stream) override { comm_.synchronize(stream); }
  std::vector<std::vector<std::uint64_t>> host_all_gather(const char* what,
                                                          const std::vector<std::uint64_t>& mine) override;
  std::shared_ptr<CommStream> make_stream() override;
  void run_group(GroupedCalls::Calls calls) override;
  /// The calls are enqueued when it returns.
  std::unique_ptr<PendingWork> start_group(GroupedCalls::Calls calls) override;

 private:
  NcclCommunicator(std::shared_ptr<NcclState> state, CommunicatorGroup group)
      : CommunicatorBase(std::move(group)), state_(std::move(state)), comm_(state_, group_) {
    group_.track_waits(true);
  }

  void require_open() const override { comm_.require_open(); }
  // Enqueues the call with NCCL and returns its result.
  ncclResult_t enqueue(const CollectiveCall& call, Stream stream);
  ncclResult_t enqueue(const CollectiveCall& call, ncclRedOp_t op, Stream stream);
  ncclResult_t enqueue_shares(const CollectiveCall& call, Stream stream);
  ncclResult_t enqueue_reductions(const CollectiveCall& call, ncclRedOp_t op, Stream stream);
  ncclResult_t enqueue_slices(const CollectiveCall& call, std::span<const std::size_t> send_counts,
                              std::span<const std::size_t> recv_counts, Stream stream);
  // Runs `calls` in one group of NCCL's and returns the result of the group.
  template <typename Calls>
  ncclResult_t in_nccl_group(Calls calls);
  // Runs the group's first collective, on a stream of its own, so that it does not wait for other work.
  void first_collective(const Deadline& deadline);

  std::shared_ptr<NcclState> state_;
  NcclComm comm_;
};

}  // namespace muster::detail
