// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <utility>

#include "muster/buffer.hpp"
#include "muster/collective_call.hpp"
#include "muster/error.hpp"
#include "muster/export.hpp"
#include "muster/types.hpp"
#include "muster/work.hpp"

struct muster_communicator;  // of the C interface

namespace muster {

class State;

namespace detail {
class CommunicatorBackend;  // implemented by NCCL, Open MPI, the control plane and a world of one
                            // (runtime/communicator/)
}

/// A group of ranks and its collectives.
///
/// Every rank of the group calls the same operations in the same order with the same element type and counts.
/// A buffer is elements that lie side by side, as in a std::span, std::vector, std::array or array, or one
/// variable: world.all_reduce(loss). Its memory must last until the operation ends, so it is no temporary
/// (a temporary std::span of other memory may be one). DataType lists the element types; others are compile
/// errors. On backend "nccl" all buffers are GPU memory and operations are enqueued on `stream`.
/// synchronize(stream) waits for them. CUDA's own functions can wait for them too: a thread of Muster then
/// monitors the operations (docs/failures.md). On "open-mpi", "control-plane" and "alone" buffers are host
/// memory, `stream` is ignored, and a call returns when the result is there. Lengths are those of the
/// buffers, in elements. An operation on 0 elements moves nothing, but every rank must call it like any
/// other.
///
/// @throws Error, from each operation. usage: invalid arguments (a rank outside the group, lengths that do
/// not match, buffers that overlap), found before anything is sent, so that the communicator stays usable.
/// usage, naming the ranks and their calls: ranks make different calls (docs/failures.md says when it is
/// noticed). deadline: a wait exceeds JoinOptions::operation_timeout; it names the operation, this rank and
/// host, and, where they can be known, the missing ranks. lost_rank. device: errors of CUDA or NCCL. system:
/// all others. After any error but the first kind the communicator must not be used again.
///
/// A handle: copies refer to the same group. Not thread-safe: one operation at a time per communicator. On
/// "open-mpi" different communicators may be used in different threads at the same time.
class MUSTER_EXPORT Communicator {
 public:
  explicit Communicator(std::shared_ptr<detail::CommunicatorBackend> collectives);

  int rank() const noexcept;
  int size() const noexcept;
  /// "nccl", "open-mpi", "control-plane" (host memory under JoinOptions::tolerate_rank_loss) or "alone".
  const char* backend() const noexcept;

  /// Element-wise reduction over all ranks, in place. Every rank ends with the same bits.
  template <typename Buffer>
  void all_reduce(Buffer&& buffer, ReduceOp op = Reduction::sum, Stream stream = nullptr) {
    auto const all = detail::result_elements<Buffer>(buffer);
    run(reduction({Kind::all_reduce, all.data(), all.data(), all.size(), detail::type_of(all)}, op), stream);
  }
  /// The same out of place: `out` has the length of `in`, and is `in` itself or does not overlap it.
  template <typename In, typename Out>
  requires(!std::convertible_to<Out, ReduceOp>) void all_reduce(In&& in, Out&& out,
                                                                ReduceOp op = Reduction::sum,
                                                                Stream stream = nullptr) {
    auto const [from, to] = detail::in_and_out<In, Out>(in, out);
    require_equal(from.size(), to.size(), "all_reduce");
    run(reduction({Kind::all_reduce, from.data(), to.data(), from.size(), detail::type_of(to)}, op), stream);
  }
  /// Element-wise reduction over all ranks, in place at `root`. Buffers of other ranks stay unchanged.
  template <typename Buffer>
  void reduce(Buffer&& buffer, int root, ReduceOp op = Reduction::sum, Stream stream = nullptr) {
    auto const all = detail::result_elements<Buffer>(buffer);
    run(reduction({Kind::reduce, all.data(), all.data(), all.size(), detail::type_of(all), {}, root}, op),
        stream);
  }
  /// Copies root's buffer into every rank's.
  template <typename Buffer>
  void broadcast(Buffer&& buffer, int root, Stream stream = nullptr) {
    auto const all = detail::result_elements<Buffer>(buffer);
    run({Kind::broadcast, all.data(), all.data(), all.size(), detail::type_of(all), {}, root}, stream);
  }
  /// all[r * mine.size() ...] = rank r's `mine`. all.size() must be size() * mine.size(). `mine` may be this
  /// rank's share of `all`.
  template <typename In, typename Out>
  void all_gather(In&& mine, Out&& all, Stream stream = nullptr) {
    auto const [from, to] = detail::in_and_out<In, Out>(mine, all);
    require_factor(from.size(), to.size(), "all_gather");
    run({Kind::all_gather, from.data(), to.data(), from.size(), detail::type_of(to)}, stream);
  }
  /// Concatenates shares of different lengths in the order of ranks: counts[r] is the length of rank r's,
  /// with the same `counts` on every rank. mine.size() must be counts[rank()] and all.size() the sum of
  /// `counts`. `mine` may be this rank's share of `all`.
  template <typename In, typename Out>
  void all_gather_v(In&& mine, Out&& all, std::span<const std::size_t> counts, Stream stream = nullptr) {
    auto const [from, to] = detail::in_and_out<In, Out>(mine, all);
    require_shares(from.size(), to.size(), counts, "all_gather_v");
    run({Kind::all_gather_v, from.data(), to.data(), from.size(), detail::type_of(to), {}, 0, counts},
        stream);
  }
  /// `mine` = this rank's slice of the element-wise reduction of `all`. all.size() must be size() *
  /// mine.size(). `mine` may be that slice of `all`; the other slices of `all` are then undefined.
  template <typename In, typename Out>
  void reduce_scatter(In&& all, Out&& mine, ReduceOp op = Reduction::sum, Stream stream = nullptr) {
    auto const [from, to] = detail::in_and_out<In, Out>(all, mine);
    require_factor(to.size(), from.size(), "reduce_scatter");
    run(reduction({Kind::reduce_scatter, from.data(), to.data(), to.size(), detail::type_of(to)}, op),
        stream);
  }
  /// The same with shares of different lengths: counts[r] is the length of rank r's, with the same `counts`
  /// on every rank. mine.size() must be counts[rank()] and all.size() the sum of `counts`.
  template <typename In, typename Out>
  void reduce_scatter_v(In&& all, Out&& mine, std::span<const std::size_t> counts,
                        ReduceOp op = Reduction::sum, Stream stream = nullptr) {
    auto const [from, to] = detail::in_and_out<In, Out>(all, mine);
    require_shares(to.size(), from.size(), counts, "reduce_scatter_v");
    run(reduction(
            {Kind::reduce_scatter_v, from.data(), to.data(), to.size(), detail::type_of(to), {}, 0, counts},
            op),
        stream);
  }
  /// Slice r of `out` = this rank's slice of rank r's `in`. Both have size() slices of equal length, and do
  /// not overlap.
  template <typename In, typename Out>
  void all_to_all(In&& in, Out&& out, Stream stream = nullptr) {
    auto const [from, to] = detail::in_and_out<In, Out>(in, out);
    require_equal(from.size(), to.size(), "all_to_all");
    auto const count = from.size() / static_cast<std::size_t>(size());
    require_factor(count, from.size(), "all_to_all");
    run({Kind::all_to_all, from.data(), to.data(), count, detail::type_of(to)}, stream);
  }
  /// The same with slices of different lengths, one after the other in the order of ranks: send_counts[r]
  /// elements of `in` go to rank r, and recv_counts[r] elements come from it, which must be rank r's
  /// send_counts[rank()]. An Error names two that differ: on host memory ranks exchange their counts first;
  /// on "nccl" rank 0 compares those of the calls that it compares at all (docs/failures.md).
  template <typename In, typename Out>
  void all_to_all_v(In&& in, Out&& out, std::span<const std::size_t> send_counts,
                    std::span<const std::size_t> recv_counts, Stream stream = nullptr) {
    auto const [from, to] = detail::in_and_out<In, Out>(in, out);
    require_slices(from.size(), to.size(), send_counts, recv_counts);
    run({Kind::all_to_all_v,
         from.data(),
         to.data(),
         0,
         detail::type_of(to),
         {},
         0,
         send_counts,
         {},
         recv_counts},
        stream);
  }
  /// Each call matches one recv on rank `to` from this rank, of the same type and count. `to` is another
  /// rank.
  template <typename Buffer>
  void send(Buffer&& buffer, int to, Stream stream = nullptr) {
    auto const all = detail::elements<Buffer>(buffer);
    run({Kind::send, all.data(), nullptr, all.size(), detail::type_of(all), {}, to}, stream);
  }
  /// Each call matches one send on rank `from` to this rank. `from` is another rank.
  template <typename Buffer>
  void recv(Buffer&& buffer, int from, Stream stream = nullptr) {
    auto const all = detail::result_elements<Buffer>(buffer);
    run({Kind::recv, all.data(), all.data(), all.size(), detail::type_of(all), {}, from}, stream);
  }
  /// Runs `calls`, then issues its operations on this communicator together, as CallGroup does:
  /// world.grouped([&] { world.send(…); world.recv(…); }). When `calls` throws, none is issued.
  template <std::invocable Calls>
  void grouped(Calls&& calls);

  /// The same, but returns at once: Work::wait() returns when the operations have completed. Calls on this
  /// communicator keep their order on every rank, asynchronous or not.
  template <std::invocable Calls>
  Work async(Calls&& calls);
  /// async() of an all_reduce in place.
  template <typename Buffer>
  Work all_reduce_async(Buffer&& buffer, ReduceOp op = Reduction::sum, Stream stream = nullptr);

  /// Returns when every rank has called it. On "nccl" it also synchronizes `stream`.
  void barrier(Stream stream = nullptr);

  /// Ranks with the same color, at least 0, form a new communicator, ordered by (key, rank), on the same
  /// memory. Collective over this communicator.
  Communicator split(int color, int key = 0) const;

  /// Waits until the operations on `stream` have completed, and checks for errors and the deadline. On host
  /// memory it waits for asynchronous operations.
  void synchronize(Stream stream = nullptr);

 private:
  using Kind = detail::OperationKind;

  static detail::CollectiveCall reduction(detail::CollectiveCall call, const ReduceOp& op) noexcept {
    call.reduction = op.reduction;
    call.factor = op.factor;
    return call;
  }
  // Checks ranks and buffers, and runs the call.
  void run(const detail::CollectiveCall& call, Stream stream);
  void require_factor(std::size_t mine, std::size_t all, const char* operation) const;
  void require_equal(std::size_t in, std::size_t out, const char* operation) const;
  void require_shares(std::size_t mine, std::size_t all, std::span<const std::size_t> counts,
                      const char* operation) const;
  void require_slices(std::size_t in, std::size_t out, std::span<const std::size_t> send_counts,
                      std::span<const std::size_t> recv_counts) const;
  void require_sum(std::size_t all, std::span<const std::size_t> counts, const char* operation) const;
  void require_no_group(const char* operation) const;

  friend class CallGroup;
  friend class Reducer;
  friend struct ::muster_communicator;
  friend MUSTER_EXPORT void broadcast_state(const Communicator& world, const State& state, Stream stream);
  std::shared_ptr<detail::CommunicatorBackend> collectives_;
};

/// While a CallGroup exists, operations on its communicator are only recorded; issue() issues them together.
/// Then sends and receives between ranks in both directions cannot deadlock, and NCCL starts them as one
/// group (ncclGroupStart, ncclGroupEnd). Before issue() no buffer is read or written, and no operation
/// reports an error. Ranks that take part in the same operations of the whole group record them in the same
/// order. Without issue() the operations are dropped. barrier, split, synchronize and a nested group throw
/// Error(ErrorCode::usage).
class MUSTER_EXPORT CallGroup {
 public:
  explicit CallGroup(Communicator communicator);
  ~CallGroup();
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;

  /// On host memory: returns when all operations have completed. On "nccl": when all are enqueued.
  void issue();
  /// The same, as Communicator::async() does it.
  Work issue_async();

 private:
  detail::CommunicatorBackend& end();

  Communicator communicator_;
  bool issued_ = false;
};

template <std::invocable Calls>
void Communicator::grouped(Calls&& calls) {
  CallGroup group(*this);
  std::forward<Calls>(calls)();
  group.issue();
}

template <std::invocable Calls>
Work Communicator::async(Calls&& calls) {
  CallGroup group(*this);
  std::forward<Calls>(calls)();
  return group.issue_async();
}

template <typename Buffer>
Work Communicator::all_reduce_async(Buffer&& buffer, ReduceOp op, Stream stream) {
  auto const all = detail::result_elements<Buffer>(buffer);
  return async([&] { all_reduce(all, op, stream); });
}

}  // namespace muster
