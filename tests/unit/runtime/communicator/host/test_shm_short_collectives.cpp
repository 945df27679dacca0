// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "communicator/host/shm_short_collectives.hpp"
#include "shared_memory/shared_segment.hpp"

using namespace muster;
using namespace muster::detail;

namespace {

struct Mismatch {};
struct Stopped {};

/// What rank `rank` passes as element `i` of call `number`.
std::int32_t element(int rank, std::size_t number, std::size_t i) {
  return static_cast<std::int32_t>(1000003 * static_cast<std::size_t>(rank) + 7919 * number + 31 * i) %
         100'000;
}

/// Random calls. Up to 64 of one kind and root follow each other, so that a root is ahead by as many as it
/// may.
std::vector<CollectiveCall> random_calls(int ranks, unsigned seed, std::vector<std::size_t>& counts) {
  static constexpr OperationKind kinds[] = {
      OperationKind::broadcast,        OperationKind::broadcast,    OperationKind::broadcast,
      OperationKind::reduce,           OperationKind::reduce,       OperationKind::all_reduce,
      OperationKind::all_gather,       OperationKind::all_gather_v, OperationKind::reduce_scatter,
      OperationKind::reduce_scatter_v, OperationKind::all_to_all,   OperationKind::barrier};
  std::mt19937 random(seed);
  counts.clear();
  for (int r = 0; r < ranks; ++r) counts.push_back(random() % 40);
  std::vector<CollectiveCall> calls;
  CollectiveCall call{.kind = OperationKind::barrier, .type = DataType::int32};
  for (int i = 0, same = 0; i < 500; ++i, --same) {
    if (same == 0) {
      same = 1 + static_cast<int>(random() % 64);
      call = {.kind = kinds[random() % std::size(kinds)], .type = DataType::int32};
      if (has_root(call.kind)) call.peer = static_cast<int>(random() % static_cast<unsigned>(ranks));
      if (has_shares(call.kind)) call.counts = counts;
    }
    // Up to 12 elements travel beside the round's number, more in a slot.
    call.count = 1 + random() % (random() % 2 == 0 ? 12 : 400);
    calls.push_back(call);
  }
  return calls;
}

/// What a call must give one rank.
class Results {
 public:
  Results(const CollectiveCall& call, std::size_t number, int rank, int ranks)
      : call_(call), number_(number), rank_(rank), ranks_(ranks) {}

  /// Element `i` of the result.
  std::int32_t expected(std::size_t i) const {
    auto const own = static_cast<std::size_t>(rank_);
    switch (call_.kind) {
      case OperationKind::broadcast:
        return element(call_.peer, number_, i);
      case OperationKind::all_gather:
        return element(static_cast<int>(i / call_.count), number_, i % call_.count);
      case OperationKind::all_gather_v:
        return gathered(i);
      case OperationKind::reduce_scatter:
        return sum(own * call_.count + i);
      case OperationKind::reduce_scatter_v:
        return sum(before(rank_) + i);
      case OperationKind::all_to_all:
        return element(static_cast<int>(i / call_.count), number_, own * call_.count + i % call_.count);
      default:
        return sum(i);
    }
  }

 private:
  std::size_t before(int rank) const {
    std::size_t elements = 0;
    for (int r = 0; r < rank; ++r) elements += call_.counts[static_cast<std::size_t>(r)];
    return elements;
  }
  std::int32_t gathered(std::size_t i) const {
    int rank = 0;
    while (i >= before(rank + 1)) ++rank;
    return element(rank, number_, i - before(rank));
  }
  std::int32_t sum(std::size_t i) const {
    std::int32_t all = 0;
    for (int r = 0; r < ranks_; ++r) all += element(r, number_, i);
    return all;
  }

  const CollectiveCall& call_;
  std::size_t number_;
  int rank_, ranks_;
};

/// Ranks as threads. Once one of them has thrown, no other one waits.
class Ranks {
 public:
  explicit Ranks(int ranks)
      : ranks_(ranks), memory_(SharedSegment::create(ShmShortCollectives::bytes_for(ranks))) {}

  std::unique_ptr<ShmShortCollectives> make(int rank) {
    auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(100);
    return std::make_unique<ShmShortCollectives>(
        memory_->data(), rank, ranks_, true,
        [this, end](unsigned) {
          if (thrown_ > 0 || std::chrono::steady_clock::now() > end) throw Stopped();
          std::this_thread::yield();
        },
        [] { throw Mismatch(); });
  }

  /// Runs `body(rank)` on each and returns how many have thrown a Mismatch, or have waited for 100 s.
  template <typename Body>
  int run(Body body) {
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks_; ++r) {
      threads.emplace_back([&, r] {
        try {
          body(r);
        } catch (const Mismatch&) {
          ++thrown_;
        } catch (const Stopped&) {
          if (thrown_ == 0) ++thrown_;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    return thrown_;
  }

 private:
  int ranks_;
  std::unique_ptr<SharedSegment> memory_;
  std::atomic<int> thrown_{0};
};

/// How many results of one rank are wrong.
int count_wrong(ShmShortCollectives& shm, const std::vector<CollectiveCall>& calls, int rank, int ranks,
                unsigned seed) {
  std::mt19937 random(seed + 17 * static_cast<unsigned>(rank));
  int wrong = 0;
  for (std::size_t number = 0; number < calls.size(); ++number) {
    auto call = calls[number];
    auto const size = static_cast<std::size_t>(ranks);
    if (has_shares(call.kind)) call.count = call.counts[static_cast<std::size_t>(rank)];
    std::vector<std::int32_t> in(call.in_count(size)), out(call.out_count(size));
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = element(rank, number, i);
    bool const in_place = call.kind == OperationKind::broadcast || call.kind == OperationKind::reduce;
    call.in = in.data();
    call.out = in_place ? in.data() : out.data();
    // One rank is slow now and then, so that the others are ahead.
    if (random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
    shm.run(call, number + 1);
    bool const has_result =
        call.kind != OperationKind::barrier && (call.kind != OperationKind::reduce || call.peer == rank);
    const auto& result = in_place ? in : out;
    Results const right(calls[number], number, rank, ranks);
    for (std::size_t i = 0; has_result && i < result.size(); ++i) wrong += result[i] != right.expected(i);
  }
  return wrong;
}

}  // namespace

TEST_CASE("short collectives in shared memory are right, whichever rank is ahead") {
  auto const ranks = GENERATE(2, 3, 5);
  auto const seed = GENERATE(1u, 2u);
  std::vector<std::size_t> counts;
  auto const calls = random_calls(ranks, seed, counts);
  Ranks all(ranks);
  std::vector<int> wrong(static_cast<std::size_t>(ranks));
  auto const thrown = all.run([&](int rank) {
    auto shm = all.make(rank);
    wrong[static_cast<std::size_t>(rank)] = count_wrong(*shm, calls, rank, ranks, seed);
  });
  CHECK(thrown == 0);
  CHECK(wrong == std::vector<int>(static_cast<std::size_t>(ranks)));
}

TEST_CASE("a rank that waits in shared memory for a rank with another call gets none of its data") {
  Ranks all(2);
  std::int32_t sent = 7, received = 3;
  auto const thrown = all.run([&](int rank) {
    auto* const data = rank == 0 ? &sent : &received;
    CollectiveCall const call{
        .kind = OperationKind::broadcast, .in = data, .out = data, .count = 1, .type = DataType::int32};
    all.make(rank)->run(call, rank == 0 ? 1 : 2);
  });
  CHECK(thrown == 1);
  CHECK(received == 3);
}

TEST_CASE("a call is short by what a rank's slot can hold") {
  Ranks all(4);
  auto const shm = all.make(0);
  auto const is_short = [&](OperationKind kind, std::size_t count) {
    return shm->is_short({.kind = kind, .count = count, .type = DataType::uint8});
  };
  CHECK(is_short(OperationKind::broadcast, 8u << 10));
  CHECK_FALSE(is_short(OperationKind::broadcast, (8u << 10) + 1));
  CHECK(is_short(OperationKind::all_to_all, 2u << 10));
  CHECK_FALSE(is_short(OperationKind::all_to_all, (2u << 10) + 1));
  CHECK(is_short(OperationKind::reduce_scatter, 2u << 10));
  CHECK_FALSE(is_short(OperationKind::reduce_scatter, (2u << 10) + 1));
  CHECK_FALSE(is_short(OperationKind::send, 1));
  CHECK_FALSE(is_short(OperationKind::all_to_all_v, 1));
}
