// SPDX-License-Identifier: Apache-2.0
// Operations that take long on several communicators, or while ranks wait elsewhere.
#include <latch>

#include "catch.hpp"
#include "control_plane_fixture.hpp"
#include "has.hpp"
#include "runtime/communicator/contexts.hpp"
#include "thrown_errors.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;
using detail::CommunicatorGroup;
using detail::OperationKind;

constexpr const char* rule = ": all ranks must make the same calls in the same order";

namespace {

// A rank, which runs on a thread of its own, and its communicators of all ranks.
struct Rank {
  Rank(const ControlPlaneFixture& fixture, int own, std::latch& entered)
      : rank(own),
        plane(*fixture.planes[static_cast<std::size_t>(own)]),
        a(make(fixture, "a")),
        b(make(fixture, "b")),
        all_entered(entered) {}
  CommunicatorGroup make(const ControlPlaneFixture& fixture, const char* name) const {
    CommunicatorGroup group(make_connected_context(fixture, rank, 20s), name);
    group.track_waits();
    return group;
  }

  // Until the job fails: rank 0 lets its deadline pass when all ranks are where they wait.
  void stay(const CommunicatorGroup& in) {
    all_entered.arrive_and_wait();
    if (rank == 0) in.fail_stalled(2s);
    while (!plane.failed()) std::this_thread::sleep_for(1ms);
    plane.check();
  }
  void wait_in(CommunicatorGroup& group, OperationKind kind = OperationKind::all_reduce) {
    group.begin_call({.kind = kind, .count = 3});
    auto const waits = group.wait_scope();
    stay(group);
  }
  static void begin_message(CommunicatorGroup& group, OperationKind kind, int peer) {
    group.begin_messages(detail::to_string(kind), {&peer, 1});
    auto& counts = group.track_waits();
    ++(kind == OperationKind::send ? counts.sent : counts.received)[static_cast<std::size_t>(peer)];
  }
  void wait_in_message(CommunicatorGroup& group, OperationKind kind, int peer) {
    begin_message(group, kind, peer);
    auto const waits = group.wait_scope();
    stay(group);
  }

  int rank;
  ControlPlane& plane;
  CommunicatorGroup a, b;
  std::latch& all_entered;
};

// The error of rank 0.
Error run_ranks(int ranks, const std::function<void(Rank&)>& program) {
  ControlPlaneFixture fixture(ranks);
  std::latch entered(ranks);
  auto const thrown = fixture.run_on_all([&](int own, ControlPlane&) {
    Rank rank(fixture, own, entered);
    program(rank);
  });
  CHECK(count_reporters(thrown) == 1);
  REQUIRE(thrown[0]);
  return *thrown[0];
}

void check_deadlocked(const Error& error, bool deadlocked) {
  INFO(error.what());
  CHECK(error.exit_code() == (deadlocked ? 64 : 75));
  CHECK(has(error.what(), rule) == deadlocked);
}

}  // namespace

TEST_CASE("ranks that wait for each other on two communicators make an error of usage") {
  check_deadlocked(run_ranks(2, [](Rank& rank) { rank.wait_in(rank.rank == 0 ? rank.a : rank.b); }), true);
}

TEST_CASE("three ranks that wait in a ring make an error of usage, also if a fourth one waits for them") {
  check_deadlocked(run_ranks(4,
                             [](Rank& rank) {
                               if (rank.rank == 0) return rank.wait_in(rank.b);
                               rank.wait_in_message(rank.a, OperationKind::recv, 1 + rank.rank % 3);
                             }),
                   true);
}

TEST_CASE("a message and an operation that wait for each other make an error of usage") {
  auto const kind = GENERATE(OperationKind::send, OperationKind::recv);
  int const with_message = GENERATE(0, 1);
  check_deadlocked(run_ranks(2,
                             [&](Rank& rank) {
                               if (rank.rank != with_message) return rank.wait_in(rank.a);
                               Deadline const began_long_ago(20s);
                               rank.begin_message(rank.b, kind, 1 - rank.rank);
                               auto const waits = rank.b.wait_scope();
                               std::this_thread::sleep_for(1100ms);
                               rank.b.warn_if_stalled(began_long_ago);
                               rank.stay(rank.b);
                             }),
                   true);
}

TEST_CASE("a message whose other side has begun is awaited, and not its rank") {
  auto const [kind, counterpart] = GENERATE(std::pair(OperationKind::send, OperationKind::recv),
                                            std::pair(OperationKind::recv, OperationKind::send));
  check_deadlocked(run_ranks(2,
                             [&](Rank& rank) {
                               if (rank.rank == 0) return rank.wait_in_message(rank.b, kind, 1);
                               rank.begin_message(rank.b, counterpart, 0);
                               rank.wait_in(rank.a);
                             }),
                   false);
}

TEST_CASE("a send that began just now may end without its recv") {
  check_deadlocked(run_ranks(2,
                             [&](Rank& rank) {
                               if (rank.rank == 0) return rank.wait_in(rank.a);
                               rank.wait_in_message(rank.b, OperationKind::send, 0);
                             }),
                   false);
}

TEST_CASE("a rank in a call that may end without the others does not wait for them") {
  auto const kind =
      GENERATE(OperationKind::broadcast, OperationKind::all_gather_v, OperationKind::reduce_scatter_v);
  check_deadlocked(run_ranks(2,
                             [&](Rank& rank) {
                               if (rank.rank == 0) return rank.wait_in(rank.a);
                               std::vector<std::size_t> const counts{3, 0};
                               rank.b.begin_call({.kind = kind, .count = 3, .counts = counts});
                               auto const waits = rank.b.wait_scope();
                               rank.stay(rank.b);
                             }),
                   false);
}

TEST_CASE("a rank whose program computes is late, and not in another call") {
  check_deadlocked(run_ranks(2,
                             [](Rank& rank) {
                               if (rank.rank == 0) return rank.wait_in(rank.a);
                               rank.b.begin_call({.kind = OperationKind::all_reduce, .count = 3});
                               rank.stay(rank.b);
                             }),
                   false);
}

TEST_CASE("a call in the background counts as the program's when the program waits until it has ended") {
  bool const awaited = GENERATE(false, true);
  check_deadlocked(run_ranks(2,
                             [&](Rank& rank) {
                               if (rank.rank == 0) return rank.wait_in(rank.a);
                               rank.b.count_background(1);
                               rank.b.await_background(awaited);
                               rank.wait_in(rank.b);
                             }),
                   awaited);
}

TEST_CASE("a rank that calls from a second thread may enter the awaited call there") {
  bool const has_ended = GENERATE(false, true);
  std::latch end(1);
  check_deadlocked(run_ranks(2,
                             [&](Rank& rank) {
                               if (rank.rank == 0) return rank.wait_in(rank.a);
                               std::latch has_called(1);
                               std::thread second([&] {
                                 rank.plane.note_caller();
                                 has_called.count_down();
                                 if (!has_ended) end.wait();
                               });
                               has_called.wait();
                               if (has_ended) second.join();
                               try {
                                 rank.wait_in(rank.b);
                               } catch (...) {
                                 end.count_down();
                                 if (!has_ended) second.join();
                                 throw;
                               }
                             }),
                   has_ended);
}

TEST_CASE(
    "when any rank of an operation is awaited by one that has not entered it, the error is one of usage") {
  auto const error = run_ranks(3, [](Rank& rank) {
    if (rank.rank < 2) return rank.wait_in(rank.a);
    rank.all_entered.count_down();
    rank.plane.broadcast("message from rank 2", {1, 2}, 2, Blob{1}, 20s);
  });
  CHECK(has(error.what(), "waits in message from rank 2 for rank 1 (host h1"));
  check_deadlocked(error, true);
}

TEST_CASE("a rank that waits in a call of the job for one that waits elsewhere makes an error of usage") {
  bool const computes = GENERATE(false, true);
  ControlPlaneFixture fixture(2);
  std::latch entered(2);
  auto const thrown = fixture.run_on_all([&](int own, ControlPlane& plane) {
    Rank rank(fixture, own, entered);
    if (own == 0) plane.barrier("epoch", 500ms);
    rank.a.begin_call({.kind = OperationKind::all_reduce, .count = 3});
    auto const stay = [&] {
      while (!plane.failed()) std::this_thread::sleep_for(1ms);
      plane.check();
    };
    if (computes) return stay();
    auto const scope = rank.a.wait_scope();
    stay();
  });
  REQUIRE(thrown[0]);
  check_deadlocked(*thrown[0], !computes);
}

TEST_CASE("when operations of two communicators take long at the same time, the calls of both are compared") {
  ControlPlaneFixture fixture(4, 3);  // rank 3 does not reply, so that the first comparison takes a second
  std::vector<std::shared_ptr<OperationState>> states;
  for (std::size_t rank = 1; rank < 3; ++rank) {
    states.push_back(fixture.planes[rank]->register_communicator("part"));
    states.back()->enter({.kind = detail::OperationKind::all_reduce, .count = rank});
  }
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank == 1) std::this_thread::sleep_for(300ms);
    protocol::StalledOperation report{
        .communicator = rank == 0 ? "world" : "part", .number = 1, .operation = "all_reduce", .waited = 1s};
    report.warning = report.silent = true;
    if (rank < 2) plane.report_operation({rank, rank == 0 ? 3 : 2}, report);
    plane.barrier("epoch", 10s);
  });
  REQUIRE(thrown[0]);
  INFO(thrown[0]->what());
  CHECK(has(thrown[0]->what(), "operation 1 on communicator 'part': rank 1 (host h1"));
  CHECK(has(thrown[0]->what(), "called all_reduce of 1 float32, sum, but rank 2 (host h2"));
  CHECK(has(thrown[0]->what(), rule));
  CHECK(thrown[0]->exit_code() == 64);
}
