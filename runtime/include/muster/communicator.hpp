// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <utility>

#include "muster/error.hpp"
#include "muster/export.hpp"
#include "muster/types.hpp"

namespace muster {

class State;

namespace detail {
class CommunicatorBackend;  // the interface behind which NCCL, Open MPI and a world of one stand
                    // (runtime/communicator/)
}

/// A group of ranks and its collectives.
///
/// Every rank of the group calls the same operations in the same order with the same element type and counts.
/// On backend "nccl" all buffers are GPU memory, operations are enqueued on `stream`, and synchronize(stream)
/// waits for them, as does CUDA itself: Muster then looks after them from a thread of its own
/// (docs/failures.md); on "open-mpi", "control-plane" and "alone" buffers are host memory, `stream` is
/// ignored and the call returns when the result is there. Lengths are those of the spans, in elements; an
/// operation on none does nothing.
///
/// @throws Error, each operation: usage for arguments that make no sense (a rank that is not in the group,
/// lengths that do not fit, buffers that overlap), before anything is sent, so that the communicator can be
/// used on; usage naming who called what, where ranks call different operations; deadline when a wait exceeds
/// JoinOptions::operation_timeout, naming the operation, this rank and host, and, where it can be known, who
/// is missing; lost_rank; device for what CUDA or NCCL report, system for the rest. After any but the first
/// the communicator must not be used again.
///
/// A handle: copies refer to the same group. Not thread-safe: one operation at a time per communicator; on
/// "open-mpi" different communicators may work in different threads at the same time.
class MUSTER_EXPORT Communicator {
 public:
  explicit Communicator(std::shared_ptr<detail::CommunicatorBackend> collectives);

  int rank() const noexcept;
  int size() const noexcept;
  /// "nccl", "open-mpi", "control-plane" (host memory under JoinOptions::tolerate_rank_loss) or "alone".
  const char* backend() const noexcept;

  /// Element-wise reduction over all ranks, in place. Every rank ends with the same bits.
  template <Element T>
  void all_reduce(std::span<T> buffer, Reduction op = Reduction::sum, Stream stream = nullptr) {
    all_reduce_bytes(buffer.data(), buffer.data(), buffer.size(), DataTypeOf<T>::value, op, stream);
  }
  /// The same out of place: `out`, as long as `in`, is `in` itself or apart from it.
  template <Element T>
  void all_reduce(std::span<const T> in, std::span<T> out, Reduction op = Reduction::sum,
                  Stream stream = nullptr) {
    require_equal(in.size(), out.size(), "all_reduce");
    all_reduce_bytes(in.data(), out.data(), in.size(), DataTypeOf<T>::value, op, stream);
  }
  /// Element-wise reduction over all ranks, in place at `root`. The others' buffers stay as they are.
  template <Element T>
  void reduce(std::span<T> buffer, int root, Reduction op = Reduction::sum, Stream stream = nullptr) {
    reduce_bytes(buffer.data(), buffer.size(), DataTypeOf<T>::value, op, root, stream);
  }
  /// Copies root's buffer into every rank's.
  template <Element T>
  void broadcast(std::span<T> buffer, int root, Stream stream = nullptr) {
    broadcast_bytes(buffer.data(), buffer.size(), DataTypeOf<T>::value, root, stream);
  }
  /// all[r * mine.size() ...] = rank r's `mine`. all.size() must be size() * mine.size(). `mine` may be this
  /// rank's share of `all`.
  template <Element T>
  void all_gather(std::span<const T> mine, std::span<T> all, Stream stream = nullptr) {
    require_factor(mine.size(), all.size(), "all_gather");
    all_gather_bytes(mine.data(), all.data(), mine.size(), DataTypeOf<T>::value, stream);
  }
  /// Shares of different lengths, one after the other in the order of ranks: counts[r] is rank r's, the same
  /// `counts` on every rank. mine.size() must be counts[rank()] and all.size() their sum. `mine` may be this
  /// rank's share of `all`.
  template <Element T>
  void all_gather_v(std::span<const T> mine, std::span<T> all, std::span<const std::size_t> counts,
                    Stream stream = nullptr) {
    require_shares(mine.size(), all.size(), counts);
    all_gather_v_bytes(mine.data(), all.data(), counts, DataTypeOf<T>::value, stream);
  }
  /// `mine` = this rank's slice of the element-wise reduction of `all`. all.size() must be size() *
  /// mine.size(). `mine` may be that slice of `all`, whose other slices are left undefined then.
  template <Element T>
  void reduce_scatter(std::span<const T> all, std::span<T> mine, Reduction op = Reduction::sum,
                      Stream stream = nullptr) {
    require_factor(mine.size(), all.size(), "reduce_scatter");
    reduce_scatter_bytes(all.data(), mine.data(), mine.size(), DataTypeOf<T>::value, op, stream);
  }
  /// Slice r of `out` = this rank's slice of rank r's `in`. Both have size() slices of one length, and are
  /// apart.
  template <Element T>
  void all_to_all(std::span<const T> in, std::span<T> out, Stream stream = nullptr) {
    require_equal(in.size(), out.size(), "all_to_all");
    require_factor(in.size() / static_cast<std::size_t>(size()), in.size(), "all_to_all");
    all_to_all_bytes(in.data(), out.data(), in.size() / static_cast<std::size_t>(size()),
                     DataTypeOf<T>::value, stream);
  }
  /// One call matches one recv of `to` from this rank, with the same type and count. `to` is another rank.
  template <Element T>
  void send(std::span<const T> buffer, int to, Stream stream = nullptr) {
    send_bytes(buffer.data(), buffer.size(), DataTypeOf<T>::value, to, stream);
  }
  /// One call matches one send of `from` to this rank. `from` is another rank.
  template <Element T>
  void recv(std::span<T> buffer, int from, Stream stream = nullptr) {
    recv_bytes(buffer.data(), buffer.size(), DataTypeOf<T>::value, from, stream);
  }
  /// Runs `calls` and then issues the operations that it called on this communicator together, as CallGroup
  /// does: world.grouped([&] { world.send(…); world.recv(…); }). When `calls` throws, none is issued.
  template <std::invocable Calls>
  void grouped(Calls&& calls);

  /// Returns when every rank has called it. On "nccl" it also synchronizes `stream`.
  void barrier(Stream stream = nullptr);

  /// Ranks with the same color, at least 0, form a new communicator, ordered by (key, rank), on the same
  /// memory. A collective call on this one.
  Communicator split(int color, int key = 0) const;

  /// Waits until the operations enqueued on `stream` are done, watching for errors and the deadline. No-op
  /// for host backends.
  void synchronize(Stream stream = nullptr);

 private:
  void all_reduce_bytes(const void* in, void* out, std::size_t count, DataType, Reduction, Stream);
  void reduce_bytes(void* buffer, std::size_t count, DataType, Reduction, int root, Stream);
  void broadcast_bytes(void* buffer, std::size_t count, DataType, int root, Stream);
  void all_gather_bytes(const void* in, void* out, std::size_t count, DataType, Stream);
  void all_gather_v_bytes(const void* in, void* out, std::span<const std::size_t> counts, DataType, Stream);
  void reduce_scatter_bytes(const void* in, void* out, std::size_t count, DataType, Reduction, Stream);
  void all_to_all_bytes(const void* in, void* out, std::size_t count, DataType, Stream);
  void send_bytes(const void* buffer, std::size_t count, DataType, int to, Stream);
  void recv_bytes(void* buffer, std::size_t count, DataType, int from, Stream);
  void require_factor(std::size_t mine, std::size_t all, const char* operation) const;
  void require_equal(std::size_t in, std::size_t out, const char* operation) const;
  void require_shares(std::size_t mine, std::size_t all, std::span<const std::size_t> counts) const;
  void require_rank(int rank, const char* operation) const;
  void require_no_group(const char* operation) const;

  friend class CallGroup;
  friend class Reducer;
  friend MUSTER_EXPORT void broadcast_state(const Communicator& world, const State& state, Stream stream);
  std::shared_ptr<detail::CommunicatorBackend> collectives_;
};

/// The operations that a communicator is asked for while this lives are issued together by issue(): messages
/// between ranks in both directions cannot lock each other, and NCCL starts them as one (ncclGroupStart,
/// ncclGroupEnd). Until then no buffer is read or written, and no error of an operation is told. Ranks that
/// take part in the same operations of the whole group put them into a group in the same order. Without
/// issue() the operations are forgotten. barrier, split, synchronize and a second group inside are refused
/// with Error(ErrorCode::usage).
class MUSTER_EXPORT CallGroup {
 public:
  explicit CallGroup(Communicator communicator);
  ~CallGroup();
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;

  /// On host memory: returns when all are done. On "nccl": when all are enqueued.
  void issue();

 private:
  Communicator communicator_;
  bool issued_ = false;
};

template <std::invocable Calls>
void Communicator::grouped(Calls&& calls) {
  CallGroup group(*this);
  std::forward<Calls>(calls)();
  group.issue();
}

}  // namespace muster
