// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>

#include "muster/error.hpp"
#include "muster/export.hpp"
#include "muster/types.hpp"

namespace muster {

namespace detail {
class Collectives;  // the interface behind which NCCL, Open MPI and a world of one stand
                    // (runtime/communicator/)
}

/// A group of ranks and its collectives.
///
/// Every rank of the group calls the same operations in the same order with the same element type and counts.
/// On backend "nccl" all buffers are GPU memory, operations are enqueued on `stream`, and synchronize(stream)
/// waits for them; on "open-mpi" and "alone" buffers are host memory, `stream` is ignored and the call
/// returns when the result is there. Every wait is bounded by timeout(): when it passes,
/// Error(Fault::deadline) names the operation, this rank and host, and, where it can be known, who is
/// missing. After any Error the communicator must not be used again.
///
/// A handle: copies refer to the same group. Not thread-safe: one operation at a time per communicator; on
/// "open-mpi" different communicators may work in different threads at the same time.
class MUSTER_EXPORT Communicator {
 public:
  explicit Communicator(std::shared_ptr<detail::Collectives> collectives);

  int rank() const noexcept;
  int size() const noexcept;
  /// "nccl", "open-mpi" or "alone".
  const char* backend() const noexcept;

  /// Element-wise reduction over all ranks, in place. Every rank ends with the same bits.
  template <Element T>
  void all_reduce(std::span<T> buffer, Reduction op = Reduction::sum, Stream stream = nullptr) {
    all_reduce_bytes(buffer.data(), buffer.data(), buffer.size(), DataTypeOf<T>::value, op, stream);
  }
  /// Copies root's buffer into every rank's.
  template <Element T>
  void broadcast(std::span<T> buffer, int root, Stream stream = nullptr) {
    broadcast_bytes(buffer.data(), buffer.size(), DataTypeOf<T>::value, root, stream);
  }
  /// all[r * mine.size() ...] = rank r's `mine`. all.size() must be size() * mine.size().
  template <Element T>
  void all_gather(std::span<const T> mine, std::span<T> all, Stream stream = nullptr) {
    require_factor(mine.size(), all.size(), "all_gather");
    all_gather_bytes(mine.data(), all.data(), mine.size(), DataTypeOf<T>::value, stream);
  }
  /// `mine` = this rank's slice of the element-wise reduction of `all`. all.size() must be size() *
  /// mine.size().
  template <Element T>
  void reduce_scatter(std::span<const T> all, std::span<T> mine, Reduction op = Reduction::sum,
                      Stream stream = nullptr) {
    require_factor(mine.size(), all.size(), "reduce_scatter");
    reduce_scatter_bytes(all.data(), mine.data(), mine.size(), DataTypeOf<T>::value, op, stream);
  }
  template <Element T>
  void send(std::span<const T> buffer, int to, Stream stream = nullptr) {
    send_bytes(buffer.data(), buffer.size(), DataTypeOf<T>::value, to, stream);
  }
  template <Element T>
  void recv(std::span<T> buffer, int from, Stream stream = nullptr) {
    recv_bytes(buffer.data(), buffer.size(), DataTypeOf<T>::value, from, stream);
  }
  /// Returns when every rank has called it. On "nccl" it also synchronizes `stream`.
  void barrier(Stream stream = nullptr);

  /// Ranks with the same color form a new communicator, ordered by (key, rank). A collective call on this
  /// one.
  /// @throws Error(Fault::usage) for a negative color.
  Communicator split(int color, int key = 0) const;

  /// Waits until the operations enqueued on `stream` are done, watching for errors and the deadline. No-op
  /// for host backends.
  void synchronize(Stream stream = nullptr);

 private:
  void all_reduce_bytes(const void* in, void* out, std::size_t count, DataType, Reduction, Stream);
  void broadcast_bytes(void* buffer, std::size_t count, DataType, int root, Stream);
  void all_gather_bytes(const void* in, void* out, std::size_t count, DataType, Stream);
  void reduce_scatter_bytes(const void* in, void* out, std::size_t count, DataType, Reduction, Stream);
  void send_bytes(const void* buffer, std::size_t count, DataType, int to, Stream);
  void recv_bytes(void* buffer, std::size_t count, DataType, int from, Stream);
  void require_factor(std::size_t mine, std::size_t all, const char* operation) const;
  void require_rank(int rank, const char* operation) const;

  std::shared_ptr<detail::Collectives> collectives_;
};

}  // namespace muster
