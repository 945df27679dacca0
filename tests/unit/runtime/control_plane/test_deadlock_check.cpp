// SPDX-License-Identifier: Apache-2.0
// Which replies prove that ranks wait for each other for ever.
#include "catch.hpp"
#include "control_plane/deadlock_check.hpp"
#include "control_plane/rank_ranges.hpp"

using namespace muster::control;
using muster::protocol::RankState;
using muster::protocol::Wait;

namespace {

// Of four ranks.
struct Replies {
  void wait_in(int rank, const Wait& wait) {
    first[rank].one_caller = true;
    first[rank].wait = wait;
  }
  // All ranks still wait where they did, and have entered none of the other calls.
  DeadlockCheck check() {
    DeadlockCheck made(first, 4);
    second = first;
    for (auto& [unused_rank, state] : second)
      for (const auto& wait : made.query().waits)
        state.entered.push_back(wait.communicator == state.wait.communicator);
    return made;
  }
  bool is_deadlocked(int rank) {
    auto const made = check();
    return made.is_any_deadlocked({rank}, second, {});
  }

  RankStates first, second;
};

Wait operation_of(const std::string& communicator, const std::vector<int>& members) {
  return {.communicator = communicator, .number = 3, .members = encode_ranks(members, 4)};
}

// Rank 0 waits for rank 1, which waits for rank 2, which waits for rank 1; rank 3 waits for nobody.
Replies make_circle() {
  Replies replies;
  replies.wait_in(0, operation_of("a", {0, 1}));
  replies.wait_in(1, operation_of("b", {1, 2}));
  replies.wait_in(2, {.communicator = "c", .from = 1, .peer = 1, .count = 1});
  replies.wait_in(3, operation_of("d", {3}));
  return replies;
}

}  // namespace

TEST_CASE("ranks in a circle never go on, nor do those that wait for them") {
  auto replies = make_circle();
  for (int const rank : {0, 1, 2}) CHECK(replies.is_deadlocked(rank));
  CHECK_FALSE(replies.is_deadlocked(3));
}

TEST_CASE("a circle counts only if both replies of all its ranks prove it") {
  auto replies = make_circle();
  auto const check = replies.check();
  REQUIRE(check.is_any_deadlocked({0}, replies.second, {}));
  auto& second = replies.second;
  SECTION("a rank that is stopped does not reply again") { second.erase(2); }
  SECTION("a rank has entered the call meanwhile") { second[2].entered.assign(4, true); }
  SECTION("a rank waits in a later operation") { ++second[1].wait.number; }
  SECTION("a rank waits for a later message") { ++second[2].wait.count; }
  SECTION("a rank no longer waits") { second[1].wait = {}; }
  SECTION("a rank calls from another thread, too") { second[2].one_caller = false; }
  SECTION("a rank's reply has another number of calls") { second[2].entered.pop_back(); }
  CHECK_FALSE(check.is_any_deadlocked({0}, second, {}));
}

TEST_CASE("a rank that called from two threads at first is not queried again") {
  auto replies = make_circle();
  replies.first[2].one_caller = false;
  CHECK(replies.check().ranks() == std::vector{0, 1, 3});
  CHECK_FALSE(replies.is_deadlocked(0));
}

TEST_CASE("a round is the wait of a rank as long as it is not complete") {
  asio::io_context io;
  Rounds rounds;
  muster::protocol::Contribution contribution;
  contribution.name = "epoch";
  rounds["epoch"] = std::make_unique<GatherRound>(io, contribution, 4);
  rounds["epoch"]->add(1, contribution);
  Replies replies;
  replies.wait_in(0, operation_of("a", {0, 1}));
  replies.first[1].one_caller = true;
  replies.first[1].round = rounds["epoch"]->serial();
  auto const check = replies.check();
  CHECK(check.is_any_deadlocked({0}, replies.second, rounds));
  SECTION("it is complete, and there is another one of its name") {
    rounds["epoch"] = std::make_unique<GatherRound>(io, contribution, 4);
    rounds["epoch"]->add(1, contribution);
  }
  SECTION("the awaited rank has joined it") { rounds["epoch"]->add(0, contribution); }
  CHECK_FALSE(check.is_any_deadlocked({0}, replies.second, rounds));
}

TEST_CASE("the second query has no lists of ranks, and not more calls than all ranks can be sent") {
  Replies replies;
  for (int rank = 0; rank < 100; ++rank)
    replies.wait_in(rank, operation_of("a" + std::to_string(rank), {0, 2}));
  replies.wait_in(0, operation_of(std::string(2000, 'a'), {0, 2}));
  auto const query = DeadlockCheck(replies.first, 100).query();
  CHECK(query.waits.size() == 64);
  for (const auto& wait : query.waits) {
    CHECK(wait.members.is_null());
    CHECK(wait.communicator.size() < 10);
  }
}
