// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "communicator/communicator_base.hpp"
#include "communicator/host/shm_collectives.hpp"

namespace muster::detail {

/// A communicator on host memory without MPI, for jobs that go on after losing a rank, which Open MPI 4.1
/// cannot. Ranks that are all on one host share memory, unless the job survives the loss of ranks
/// (Job::survive_loss_of()). Otherwise it is slow: all data passes through rank 0 over the control plane's
/// connections, in small pieces, and every rank receives every rank's part. All ranks reduce in rank order
/// and so get the same bits, on both ways.
class ControlPlaneCommunicator : public CommunicatorBase {
 public:
  explicit ControlPlaneCommunicator(CommunicatorGroup group) : CommunicatorBase(std::move(group)) {
    group_.track_waits();
  }

  const char* backend() const noexcept override { return "control-plane"; }
  void run(const CollectiveCall& given, Stream stream) override;
  std::shared_ptr<CommunicatorBackend> split(int color, int key) override;
  bool reduces_in_shared_memory() override;
  void synchronize(Stream) override {}
  void interrupt() noexcept override;
  void run_group(GroupedCalls::Calls calls) override;
  void prefer_sleeping_waits(bool enabled) noexcept override;

 protected:
  void require_open() const override;

 private:
  // The first call, collective, finds out; null where the ranks do not share memory.
  ShmCollectives* shm();
  void broadcast(const CollectiveCall& call);
  void all_gather(const CollectiveCall& call);
  void all_gather_v(const CollectiveCall& call);
  void reduce_scatter(const CollectiveCall& call, std::span<const std::size_t> counts);
  void all_to_all(const CollectiveCall& call);
  void all_to_all_v(const CollectiveCall& call);
  // Every rank's bytes, by rank; none from a lost one. A rank in another operation, or with another length,
  // is an error that names both calls.
  std::vector<std::optional<control::Blob>> gather_present(const void* bytes, std::size_t length);
  // The same where no rank may be lost.
  std::vector<control::Blob> gather(const void* bytes, std::size_t length);
  std::string round_name() const;
  void check_same_call(const std::vector<control::Blob>& blobs);
  // Broadcasts root's bytes, in place.
  void broadcast_bytes(std::byte* bytes, std::size_t length, int root);
  void broadcast_piece(void* bytes, std::size_t length, int root);
  void reduce_in_pieces(const CollectiveCall& call, void* out);
  void transfer_message(const CollectiveCall& call);
  int sender(const CollectiveCall& message) const;
  int receiver(const CollectiveCall& message) const;

  std::atomic<bool> interrupted_{false};
  std::atomic<bool> prefer_sleep_{false};
  std::optional<std::unique_ptr<ShmCollectives>> shm_;
  std::string call_;  // the current call with every argument that must be equal on all ranks
};

}  // namespace muster::detail
