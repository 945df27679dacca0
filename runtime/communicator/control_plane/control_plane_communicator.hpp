// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator/communicator_base.hpp"

namespace muster::detail {

/// A communicator on host memory over the control plane's connections, for jobs that go on after losing a
/// rank: Open MPI 4.1 cannot. It is correct but slow: all data passes through rank 0 in small pieces, and
/// every rank receives every rank's part. All ranks reduce in rank order and so get the same bits.
class ControlPlaneCommunicator : public CommunicatorBase {
 public:
  explicit ControlPlaneCommunicator(CommunicatorGroup group) : CommunicatorBase(std::move(group)) {}

  const char* backend() const noexcept override { return "control-plane"; }
  void run(const CollectiveCall& given, Stream stream) override;
  std::shared_ptr<CommunicatorBackend> split(int color, int key) override;
  void synchronize(Stream) override {}
  void interrupt() noexcept override;
  void run_group(GroupedCalls::Calls calls) override;

 private:
  void broadcast(const CollectiveCall& call);
  void all_gather(const CollectiveCall& call);
  void all_gather_v(const CollectiveCall& call);
  void reduce_scatter(const CollectiveCall& call);
  void reduce_scatter_v(const CollectiveCall& call);
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
  void exchange_pieces(
      const CollectiveCall& call,
      const std::function<void(std::size_t at, std::size_t length, int from, const void* part)>& on_part);
  void transfer_message(const CollectiveCall& call);
  int sender(const CollectiveCall& message) const;
  int receiver(const CollectiveCall& message) const;

  std::atomic<bool> interrupted_{false};
  std::string call_;  // the current call with every argument that must be equal on all ranks
};

}  // namespace muster::detail
