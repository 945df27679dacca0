// SPDX-License-Identifier: Apache-2.0
// How ranks on the fake NCCL exchange data: through files in a folder that all of them share. Ranks on
// several hosts can do so if these share one kernel, as a lab's hosts do. It works unlike NCCL, and its speed
// says nothing about NCCL's.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

struct FakeMessage {
  int peer;
  const void* from;  // of a send
  void* to;          // of a receive
  std::size_t bytes;
};

/// One communicator's file: a slot for each rank.
class FakeExchange {
 public:
  /// `path`: used by this communicator alone; the file must not exist before its first rank joins.
  FakeExchange(std::string path, int rank, int ranks);
  ~FakeExchange();
  FakeExchange(const FakeExchange&) = delete;
  FakeExchange& operator=(const FakeExchange&) = delete;

  /// Every rank has joined.
  bool complete() const;
  int ranks() const { return ranks_; }

  // Each waits for all ranks, or returns ncclRemoteError after cancel(). `bytes` and `count` are as in NCCL's
  // calls; `in` and `out` may be the same buffer.
  ncclResult_t all_reduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op);
  ncclResult_t reduce_scatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                              ncclRedOp_t op);
  ncclResult_t reduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                      int root);
  ncclResult_t broadcast(const void* in, void* out, std::size_t bytes, int root);
  ncclResult_t all_gather(const void* in, void* out, std::size_t bytes);
  /// Takes part in nothing until it is cancelled.
  ncclResult_t hang() const;
  /// The messages of one group in which every rank takes part; messages between two ranks keep their order.
  ncclResult_t messages(const std::vector<FakeMessage>& sends, const std::vector<FakeMessage>& recvs);
  /// A message outside of groups. A sender waits only if some of its messages are not received yet.
  ncclResult_t send(const FakeMessage& message);
  ncclResult_t recv(const FakeMessage& message);
  /// `part`: the ranks with the same color, ordered by key.
  ncclResult_t split(int color, int key, std::unique_ptr<FakeExchange>& part);

  /// Ends another thread's wait.
  void cancel() { cancelled_ = true; }

 private:
  struct Head;

  std::byte* slot(int rank) const;
  std::byte* message_slot(int sender, std::size_t entry) const;
  // Writes this rank's bytes to its slot and waits for the other ranks; another barrier() ends their use.
  ncclResult_t publish(const void* mine, std::size_t bytes);
  ncclResult_t barrier();
  // False if the exchange was cancelled first.
  template <typename Condition>
  bool wait_until(Condition condition) const;
  ncclResult_t reduce_part(std::size_t first, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op);

  std::string path_;
  int rank_;
  int ranks_;
  std::size_t size_;
  Head* head_ = nullptr;
  std::uint64_t barriers_ = 0;
  int splits_ = 0;
  std::map<int, std::uint64_t> sent_to_, received_from_;  ///< messages outside of groups
  std::atomic<bool> cancelled_{false};
};

/// The elements of `in` times `factor`, each of `type`.
std::vector<std::byte> multiply(const void* in, std::size_t count, ncclDataType_t type, const void* factor);

/// Bytes of one element.
std::size_t bytes_of(ncclDataType_t type);

/// Reduces the contents of the ranks' slots, in the order of the ranks.
ncclResult_t reduce_slots(const std::vector<const std::byte*>& slots, void* out, std::size_t count,
                          ncclDataType_t type, ncclRedOp_t op);
