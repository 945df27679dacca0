// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <span>
#include <vector>

#include "muster/muster.hpp"

namespace muster::chaos {

using detail::CollectiveCall;
using Kind = detail::OperationKind;

/// Random calls of collectives, without their buffers: the same on every rank with the same seed.
class RandomCalls {
 public:
  RandomCalls(std::uint64_t seed, int ranks) : random_(seed), ranks_(ranks) {}

  /// A number of 0 … end - 1.
  std::size_t below(std::size_t end) { return static_cast<std::size_t>(random_() % end); }
  DataType type() { return types[below(std::size(types))]; }
  /// From one element to some pieces of every algorithm; half of them are short.
  std::size_t count() { return 1 + below(std::size_t{1} << (1 + below(17))); }

  CollectiveCall next() {
    CollectiveCall call{.kind = kinds[below(std::size(kinds))]};
    if (call.kind == Kind::barrier) return call;
    call.type = type();
    call.reduction = static_cast<Reduction>(below(5));
    call.peer = static_cast<int>(below(static_cast<std::size_t>(ranks_)));
    call.count = count();
    // Without another random number, so that the kept jobs stay as they are.
    if (call.kind == Kind::all_to_all && call.count % 2 == 1) call.kind = Kind::all_to_all_v;
    return call;
  }
  /// Differs from `call` in one argument, or in all of them.
  CollectiveCall other_than(const CollectiveCall& call) {
    for (;;) {
      auto const drawn = next();
      auto other = call;
      auto const what = below(5);
      // Without another random number, so that the kept jobs draw the same.
      if (what == 0) other.count = drawn.count % 4 == 0 ? 0 : drawn.count;
      if (what == 1) other.type = drawn.type;
      if (what == 2) other.reduction = drawn.reduction;
      if (what == 3) other.peer = drawn.peer;
      if (what == 4) other = drawn;
      // Counts of an all_to_all_v may differ between ranks, so the line has neither of the two calls.
      if (other.kind == Kind::all_to_all_v && call.kind == other.kind && call.type == other.type) continue;
      // A barrier has no arguments.
      if (other.kind == Kind::barrier ? call.kind != Kind::barrier : other.digest() != call.digest())
        return other;
    }
  }

 private:
  static constexpr Kind kinds[] = {Kind::all_reduce, Kind::reduce,           Kind::broadcast,
                                   Kind::all_gather, Kind::all_gather_v,     Kind::reduce_scatter,
                                   Kind::all_to_all, Kind::reduce_scatter_v, Kind::barrier};
  static constexpr DataType types[] = {DataType::float32, DataType::bfloat16, DataType::uint8,
                                       DataType::int64};

  std::mt19937_64 random_;
  int ranks_;
};

/// A call and what it refers to: equal counts for all ranks, where it has none of its own, and buffers of
/// exactly its length.
class BufferedCall {
 public:
  BufferedCall(const CollectiveCall& call, int rank, int size) : call_(call) {
    auto const ranks = static_cast<std::size_t>(size);
    counts_.assign(call.counts.begin(), call.counts.end());
    recv_counts_.assign(call.recv_counts.begin(), call.recv_counts.end());
    if (counts_.empty()) counts_.assign(ranks, call.count);
    if (recv_counts_.empty()) recv_counts_ = counts_;
    if (has_shares(call.kind)) call_.count = counts_[static_cast<std::size_t>(rank)];
    call_.counts = counts_;
    call_.recv_counts = recv_counts_;
    in_.resize(call_.in_count(ranks) * size_of(call.type));
    out_.resize(call_.out_count(ranks) * size_of(call.type));
  }
  BufferedCall(const BufferedCall&) = delete;
  BufferedCall& operator=(const BufferedCall&) = delete;

  void run(Communicator& on) {
    if (call_.type == DataType::float32) return run_on<float>(on);
    if (call_.type == DataType::bfloat16) return run_on<bfloat16>(on);
    if (call_.type == DataType::uint8) return run_on<std::uint8_t>(on);
    run_on<std::int64_t>(on);
  }

 private:
  template <typename T>
  static std::span<T> elements(std::vector<std::byte>& bytes) {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <typename T>
  void run_on(Communicator& on) {
    auto const in = elements<T>(in_), out = elements<T>(out_);
    auto const op = call_.factor ? premul_sum(*call_.factor) : call_.reduction;
    switch (call_.kind) {
      case Kind::all_reduce:
        return on.all_reduce(in, op);
      case Kind::reduce:
        return on.reduce(in, call_.peer, op);
      case Kind::broadcast:
        return on.broadcast(in, call_.peer);
      case Kind::all_gather:
        return on.all_gather(in, out);
      case Kind::all_gather_v:
        return on.all_gather_v(in, out, counts_);
      case Kind::reduce_scatter:
        return on.reduce_scatter(in, out, op);
      case Kind::reduce_scatter_v:
        return on.reduce_scatter_v(in, out, counts_, op);
      case Kind::all_to_all:
        return on.all_to_all(in, out);
      case Kind::all_to_all_v:
        return on.all_to_all_v(in, out, counts_, recv_counts_);
      case Kind::send:
        return on.send(in, call_.peer);
      case Kind::recv:
        return on.recv(in, call_.peer);
      case Kind::split:
        on.split(0);
        return;
      default:
        return on.barrier();
    }
  }

  CollectiveCall call_;
  std::vector<std::size_t> counts_, recv_counts_;
  std::vector<std::byte> in_, out_;
};

inline void run_call(Communicator& world, const CollectiveCall& call) {
  BufferedCall buffered(call, world.rank(), world.size());
  // Some are asynchronous, without another random number.
  if (call.kind == Kind::all_reduce && call.count % 3 == 0)
    return world.async([&] { buffered.run(world); }).wait();
  buffered.run(world);
}

}  // namespace muster::chaos
