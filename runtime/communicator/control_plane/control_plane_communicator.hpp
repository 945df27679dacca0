// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
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

  void all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                  Stream stream) override;
  void reduce(void* buffer, std::size_t count, DataType type, Reduction op, int root, Stream stream) override;
  void broadcast(void* buffer, std::size_t count, DataType type, int root, Stream stream) override;
  void all_gather(const void* in, void* out, std::size_t count, DataType type, Stream stream) override;
  void all_gather_v(const void* in, void* out, std::span<const std::size_t> counts, DataType type,
                    Stream stream) override;
  void reduce_scatter(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                      Stream stream) override;
  void all_to_all(const void* in, void* out, std::size_t count, DataType type, Stream stream) override;
  void send(const void* buffer, std::size_t count, DataType type, int to, Stream stream) override;
  void recv(void* buffer, std::size_t count, DataType type, int from, Stream stream) override;
  void barrier(Stream stream) override;
  std::shared_ptr<CommunicatorBackend> split(int color, int key) override;
  void synchronize(Stream) override {}
  void interrupt() noexcept override;

  void begin_group() override { in_group_ = true; }
  void end_group() override;
  void discard_group() noexcept override;
  bool in_group() const noexcept override { return in_group_; }

 private:
  struct Message {
    int from;
    int to;
    std::function<void()> call;
  };

  void collective(const char* operation, const std::string& details, std::function<void()> call);
  void message(const char* operation, int from, int to, std::function<void()> call);
  // Every rank's bytes, by rank. A rank in another operation, or with another length, is an error that names
  // both calls.
  std::vector<control::Blob> gather(const void* bytes, std::size_t length);
  std::string round_name() const;
  void check_same_call(const std::vector<control::Blob>& blobs);
  // Broadcasts one piece of root's bytes, in place.
  void broadcast_piece(void* bytes, std::size_t length, int root);
  void reduce_in_pieces(const void* in, void* out, std::size_t count, DataType type, Reduction op);
  void exchange_pieces(
      const void* in, std::size_t count, DataType type,
      const std::function<void(std::size_t at, std::size_t length, int from, const void* part)>& on_part);
  void transfer_message(void* bytes, std::size_t length, int from, int to);
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }

  std::atomic<bool> interrupted_{false};
  std::string call_;  // the current call with every argument that must be equal on all ranks
  bool in_group_ = false;
  std::vector<std::function<void()>> collectives_;  // recorded until end_group()
  std::vector<Message> messages_;
};

}  // namespace muster::detail
