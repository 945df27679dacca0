// SPDX-License-Identifier: Apache-2.0
// mismatching_ranks SEED: the ranks make the same random calls, then one of them makes another one, then all
// go on. Which calls, and which rank, follows from the seed. The ranks must end with an error that names the
// calls. Rank 0 first prints the two that differ: "calls: A|B". tests/unit/runtime/scenarios/mismatches.py
// runs it and checks the error.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "exit_code.hpp"
#include "muster/muster.hpp"

using namespace std::chrono_literals;
using muster::detail::CollectiveCall;
using Kind = muster::detail::OperationKind;

namespace {

constexpr Kind kinds[] = {Kind::all_reduce,   Kind::reduce,         Kind::broadcast,  Kind::all_gather,
                          Kind::all_gather_v, Kind::reduce_scatter, Kind::all_to_all, Kind::barrier};
constexpr muster::DataType types[] = {muster::DataType::float32, muster::DataType::bfloat16,
                                      muster::DataType::uint8, muster::DataType::int64};

// A call without its buffers.
class RandomCalls {
 public:
  RandomCalls(unsigned seed, int ranks) : random_(seed), ranks_(ranks) {}

  std::size_t below(std::size_t end) { return static_cast<std::size_t>(random_() % end); }
  CollectiveCall next() {
    CollectiveCall call{.kind = kinds[below(std::size(kinds))]};
    if (call.kind == Kind::barrier) return call;
    call.type = types[below(std::size(types))];
    call.reduction = static_cast<muster::Reduction>(below(5));
    call.peer = static_cast<int>(below(static_cast<std::size_t>(ranks_)));
    call.count = count();
    if (call.kind == Kind::reduce || call.kind == Kind::all_reduce || call.kind == Kind::reduce_scatter ||
        call.kind == Kind::broadcast)
      return call;
    call.count = std::min<std::size_t>(call.count, 20'000);  // all ranks together have more
    return call;
  }
  // Differs from `call` in one argument, or in all of them.
  CollectiveCall other_than(const CollectiveCall& call) {
    for (;;) {
      auto const drawn = next();
      auto other = call;
      switch (below(5)) {
        case 0:
          other.count = drawn.count;
          break;
        case 1:
          other.type = drawn.type;
          break;
        case 2:
          other.reduction = drawn.reduction;
          break;
        case 3:
          other.peer = drawn.peer;
          break;
        default:
          other = drawn;
      }
      // A barrier has no arguments; everything else has elements.
      if (other.kind == Kind::barrier ? call.kind != Kind::barrier
                                      : other.count > 0 && other.digest() != call.digest())
        return other;
    }
  }

 private:
  // From one element to some pieces of every algorithm; half of them are short.
  std::size_t count() { return 1 + below(std::size_t{1} << (1 + below(20))); }

  std::mt19937_64 random_;
  int ranks_;
};

template <typename T>
void run(muster::Communicator& world, const CollectiveCall& call) {
  auto const ranks = static_cast<std::size_t>(world.size());
  std::vector<T> one(call.count), all(call.count * ranks), more(call.count * ranks);
  std::vector<std::size_t> const counts(ranks, call.count);
  std::span<T> const mine(one);
  switch (call.kind) {
    case Kind::all_reduce:
      return world.all_reduce(mine, call.reduction);
    case Kind::reduce:
      return world.reduce(mine, call.peer, call.reduction);
    case Kind::broadcast:
      return world.broadcast(mine, call.peer);
    case Kind::all_gather:
      return world.all_gather(std::span<const T>(mine), std::span<T>(all));
    case Kind::all_gather_v:
      return world.all_gather_v(std::span<const T>(mine), std::span<T>(all), counts);
    case Kind::reduce_scatter:
      return world.reduce_scatter(std::span<const T>(all), mine, call.reduction);
    case Kind::all_to_all:
      return world.all_to_all(std::span<const T>(all), std::span<T>(more));
    default:
      return world.barrier();
  }
}

void run(muster::Communicator& world, const CollectiveCall& call) {
  switch (call.type) {
    case muster::DataType::float32:
      return run<float>(world, call);
    case muster::DataType::bfloat16:
      return run<muster::bfloat16>(world, call);
    case muster::DataType::uint8:
      return run<std::uint8_t>(world, call);
    default:
      return run<std::int64_t>(world, call);
  }
}

int mismatch(unsigned seed) {
  auto job = muster::Job::join({.deadline = 60s, .operation_timeout = 60s, .device = muster::Device::cpu});
  auto world = job.world();
  RandomCalls calls(seed, world.size());
  for (auto before = calls.below(12); before > 0; --before) run(world, calls.next());
  auto const culprit = static_cast<int>(calls.below(static_cast<std::size_t>(world.size())));
  auto const right = calls.next();
  auto const wrong = calls.other_than(right);
  if (world.rank() == 0)
    std::fprintf(stderr, "calls: %s|%s\n", describe_call(wrong).c_str(), describe_call(right).c_str());
  run(world, world.rank() == culprit ? wrong : right);
  for (int after = 0; after < 6; ++after) run(world, calls.next());
  job.leave();
  std::fprintf(stderr, "mismatching_ranks: no mismatch was noticed on rank %d\n", world.rank());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  auto const seed = argc > 1 ? static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10)) : 0u;
  return exit_code_of("mismatching_ranks", [&] { return mismatch(seed); });
}
