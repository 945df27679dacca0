// SPDX-License-Identifier: Apache-2.0
// How ranks on the test double of NCCL give each other their data: through files in a folder that all of them
// see, which ranks on several hosts do where these share one kernel, as a lab's do. Nothing of it is NCCL's
// own way, and its speed says nothing about NCCL's.
#pragma once

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct FakeMessage {
  int peer;
  const void* from;  // of a send
  void* to;          // of a receive
  std::size_t bytes;
};

/// One communicator's file: a place for each rank.
class FakeExchange {
 public:
  /// `path`: of the communicator alone, and none is there when its first rank comes.
  FakeExchange(std::string path, int rank, int ranks);
  ~FakeExchange();
  FakeExchange(const FakeExchange&) = delete;
  FakeExchange& operator=(const FakeExchange&) = delete;

  /// Every rank has come.
  bool complete() const;

  // Each waits until all ranks are in it, or for abandon(), and is an ncclRemoteError then. `bytes` and
  // `count` as NCCL's calls have them; buffers may be the same.
  ncclResult_t all_reduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op);
  ncclResult_t reduce_scatter(const void* in, void* out, std::size_t count, ncclDataType_t type,
                              ncclRedOp_t op);
  ncclResult_t reduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                      int root);
  ncclResult_t broadcast(const void* in, void* out, std::size_t bytes, int root);
  ncclResult_t all_gather(const void* in, void* out, std::size_t bytes);
  /// One group's messages, in which every rank has some; those between two ranks in their order.
  ncclResult_t messages(const std::vector<FakeMessage>& sends, const std::vector<FakeMessage>& recvs);
  /// A message outside of groups: of each sender one is under way at a time.
  ncclResult_t send(const FakeMessage& message);
  ncclResult_t recv(const FakeMessage& message);
  /// `part`: the ranks that gave the same color, ordered by key.
  ncclResult_t split(int color, int key, std::unique_ptr<FakeExchange>& part);

  /// `part`: the ranks without `excluded`, in their order, which wait for one another. An ncclInvalidUsage
  /// when another rank comes that is excluded here or excludes others. Once in a communicator's life.
  ncclResult_t shrink(const std::vector<int>& excluded, std::unique_ptr<FakeExchange>& part);

  /// Ends what another thread waits for.
  void abandon() { abandoned_ = true; }
  /// Goes on after that.
  void resume() { abandoned_ = false; }

 private:
  struct Head;

  std::byte* place(int rank) const;
  // Puts this rank's bytes in its place and waits for the others'; another meet() ends what is done with
  // them.
  ncclResult_t put(const void* mine, std::size_t bytes);
  ncclResult_t meet();
  // False when the exchange was abandoned before.
  template <typename Condition>
  bool wait_until(Condition condition) const;
  ncclResult_t reduce_part(std::size_t first, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op);

  std::string path_;
  int rank_;
  int ranks_;
  std::size_t size_;
  Head* head_ = nullptr;
  std::uint64_t meetings_ = 0;
  int splits_ = 0;
  std::atomic<bool> abandoned_{false};
};

/// Bytes of one element.
std::size_t bytes_of(ncclDataType_t type);

/// What the ranks' places hold as one, added in the order of the ranks.
ncclResult_t reduce_places(const std::vector<const std::byte*>& places, void* out, std::size_t count,
                           ncclDataType_t type, ncclRedOp_t op);
