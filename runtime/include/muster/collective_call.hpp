// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>

#include "muster/types.hpp"

/// What Communicator passes to its backends. Not for programs.
namespace muster::detail {

/// The operations of a communicator, in the order of the metrics.
enum class OperationKind : std::uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  all_gather_v,
  reduce_scatter,
  reduce_scatter_v,
  all_to_all,
  all_to_all_v,
  send,
  recv,
  grouped,
  barrier,
  split,
  synchronize,
};

inline constexpr std::size_t operation_kinds = 15;

const char* to_string(OperationKind kind) noexcept;
/// Of an operation that a backend is never asked to run in this way.
[[noreturn]] void throw_not_run(OperationKind kind);

constexpr bool reduces(OperationKind kind) noexcept {
  return kind == OperationKind::all_reduce || kind == OperationKind::reduce ||
         kind == OperationKind::reduce_scatter || kind == OperationKind::reduce_scatter_v;
}
constexpr bool has_root(OperationKind kind) noexcept {
  return kind == OperationKind::reduce || kind == OperationKind::broadcast;
}
/// Each rank's share has a length of its own, and every rank has all lengths.
constexpr bool has_shares(OperationKind kind) noexcept {
  return kind == OperationKind::all_gather_v || kind == OperationKind::reduce_scatter_v;
}

/// A call of an operation on buffers, or of a barrier. `in` and `out` are equal for an operation in place and
/// do not overlap otherwise; in an all_gather and a reduce_scatter, with and without _v, the short buffer may
/// also be this rank's share of the long one. reduce, broadcast and recv are in place.
struct CollectiveCall {
  OperationKind kind;
  const void* in = nullptr;
  void* out = nullptr;    ///< null in a send
  std::size_t count = 0;  ///< elements that one rank gives or gets; of an all_to_all, to each rank
  DataType type = DataType::float32;
  Reduction reduction = Reduction::sum;
  int peer = 0;  ///< the root, or the other rank of a send or recv
  /// Of an all_gather_v and a reduce_scatter_v: the elements of each rank's share; of an all_to_all_v: those
  /// that go to each rank.
  std::span<const std::size_t> counts = {};
  std::optional<double> factor = {};              ///< of a premul_sum; its `reduction` is sum
  std::span<const std::size_t> recv_counts = {};  ///< of an all_to_all_v: those that come from each rank

  bool is_message() const noexcept { return kind == OperationKind::send || kind == OperationKind::recv; }
  /// Elements of `in` on one of `ranks` ranks.
  std::size_t in_count(std::size_t ranks) const noexcept {
    if (kind == OperationKind::reduce_scatter_v || kind == OperationKind::all_to_all_v) return sum(counts);
    return kind == OperationKind::reduce_scatter || kind == OperationKind::all_to_all ? count * ranks : count;
  }
  /// Elements of `out` on one of `ranks` ranks.
  std::size_t out_count(std::size_t ranks) const noexcept {
    if (kind == OperationKind::all_gather_v) return sum(counts);
    if (kind == OperationKind::all_to_all_v) return sum(recv_counts);
    if (kind == OperationKind::send) return 0;
    return kind == OperationKind::all_gather || kind == OperationKind::all_to_all ? count * ranks : count;
  }
  /// A collective without elements, on every rank that makes the same call.
  bool is_empty_collective(std::size_t ranks) const noexcept {
    if (count > 0 || is_message()) return false;
    return kind != OperationKind::barrier && kind != OperationKind::all_to_all_v &&
           in_count(ranks) + out_count(ranks) == 0;
  }

  /// The arguments but counts and the factor's value that must be equal on all ranks, as one number.
  std::uint64_t packed_arguments() const noexcept {
    return static_cast<std::uint64_t>(kind) | static_cast<std::uint64_t>(type) << 8 |
           static_cast<std::uint64_t>(reduces(kind) ? reduction : Reduction::sum) << 16 |
           static_cast<std::uint64_t>(factor.has_value()) << 24 |
           static_cast<std::uint64_t>(has_root(kind) ? peer : 0) << 32;
  }
  /// A number that differs, almost certainly, when an argument differs that must be equal on all ranks.
  std::uint64_t digest() const noexcept { return digest(packed_arguments()); }
  /// The same, of a call that has these packed_arguments().
  std::uint64_t digest(std::uint64_t arguments) const noexcept {
    if (has_shares(kind)) return digest_of_shares();
    return (arguments + 1) * first_multiplier ^ count * second_multiplier;
  }

 private:
  // Odd, and with about as many ones as zeros, so that every argument changes the upper bits.
  static constexpr std::uint64_t first_multiplier = 0x9e3779b97f4a7c15,
                                 second_multiplier = 0xc2b2ae3d27d4eb4f;

  std::uint64_t digest_of_shares() const noexcept;
  static std::size_t sum(std::span<const std::size_t> all) noexcept {
    return std::reduce(all.begin(), all.end());
  }
};

/// The call with these packed_arguments(), for describe_call().
CollectiveCall unpack_call(std::uint64_t packed_arguments, std::size_t count);

/// "all_reduce of 1000 float32, sum": the call with every argument that must be equal on all ranks.
std::string describe_call(const CollectiveCall& call);

}  // namespace muster::detail
