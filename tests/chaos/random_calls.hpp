// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>

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

  CollectiveCall next() {
    CollectiveCall call{.kind = kinds[below(std::size(kinds))]};
    if (call.kind == Kind::barrier) return call;
    call.type = types[below(std::size(types))];
    call.reduction = static_cast<Reduction>(below(5));
    call.peer = static_cast<int>(below(static_cast<std::size_t>(ranks_)));
    // From one element to some pieces of every algorithm; half of them are short.
    call.count = 1 + below(std::size_t{1} << (1 + below(17)));
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

template <typename T>
void run_call(Communicator& world, const CollectiveCall& call) {
  auto const ranks = static_cast<std::size_t>(world.size());
  std::vector<T> mine(call.count), all(call.count * ranks), more(call.count * ranks);
  std::vector<std::size_t> const counts(ranks, call.count);
  switch (call.kind) {
    case Kind::all_reduce:
      // Some are asynchronous, without another random number.
      if (call.count % 3 == 0) return world.all_reduce_async(mine, call.reduction).wait();
      return world.all_reduce(mine, call.reduction);
    case Kind::reduce:
      return world.reduce(mine, call.peer, call.reduction);
    case Kind::broadcast:
      return world.broadcast(mine, call.peer);
    case Kind::all_gather:
      return world.all_gather(mine, all);
    case Kind::all_gather_v:
      return world.all_gather_v(mine, all, counts);
    case Kind::reduce_scatter:
      return world.reduce_scatter(all, mine, call.reduction);
    case Kind::reduce_scatter_v:
      return world.reduce_scatter_v(all, mine, counts, call.reduction);
    case Kind::all_to_all:
      return world.all_to_all(all, more);
    case Kind::all_to_all_v:
      return world.all_to_all_v(all, more, counts, counts);
    default:
      return world.barrier();
  }
}

inline void run_call(Communicator& world, const CollectiveCall& call) {
  if (call.type == DataType::float32) return run_call<float>(world, call);
  if (call.type == DataType::bfloat16) return run_call<bfloat16>(world, call);
  if (call.type == DataType::uint8) return run_call<std::uint8_t>(world, call);
  run_call<std::int64_t>(world, call);
}

}  // namespace muster::chaos
