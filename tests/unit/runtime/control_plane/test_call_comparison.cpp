// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "control_plane/call_comparison.hpp"
#include "control_plane_fixture.hpp"
#include "has.hpp"

using namespace muster;
using namespace muster::control;

namespace {

protocol::CallReport report(std::uint64_t number, const std::string& call,
                            const std::string& communicator = "world", std::uint64_t digest = 0) {
  return {communicator, number, 3, call, digest};
}

}  // namespace

TEST_CASE("when all ranks make the same calls, in any order of the reports, none fails") {
  auto const roster = ControlPlaneFixture::make_roster(3);
  CallComparison calls;
  for (int rank : {0, 1, 2}) {
    CHECK_FALSE(calls.add(rank, report(1, "barrier"), roster));
    CHECK_FALSE(calls.add(rank, report(2, "broadcast of 3 float32, root 0"), roster));
    CHECK_FALSE(calls.add(rank, report(1, "all_reduce of 3 float32, sum", "world/1.0"), roster));
  }
  // All ranks have reported operation 1, so a new communicator of this name may begin with another call.
  CHECK_FALSE(calls.add(1, report(1, "all_gather of 3 float32"), roster));
}

TEST_CASE("when a rank makes another call, the failure names both ranks and their calls") {
  auto const roster = ControlPlaneFixture::make_roster(3);
  CallComparison calls;
  CHECK_FALSE(calls.add(2, report(4, "all_reduce of 1000 float32, sum"), roster));
  auto const failure = calls.add(0, report(4, "all_reduce of 777 float32, sum"), roster);
  REQUIRE(failure);
  CHECK(failure->code == ErrorCode::usage);
  CHECK(failure->reporter == 0);
  CHECK(failure->text ==
        "operation 4 on communicator 'world': rank 0 (host h0, GPU 0000:00:00.0) called all_reduce of 777 "
        "float32, sum, but rank 2 (host h2, GPU 0000:02:00.0) called all_reduce of 1000 float32, sum: all "
        "ranks must make the same calls in the same order");
}

TEST_CASE("when the calls before the reported one differ, the failure says so") {
  auto const roster = ControlPlaneFixture::make_roster(3);
  CallComparison calls;
  CHECK_FALSE(calls.add(1, report(64, "barrier", "world", 11), roster));
  auto const failure = calls.add(0, report(64, "barrier", "world", 12), roster);
  REQUIRE(failure);
  CHECK(failure->code == ErrorCode::usage);
  CHECK(has(failure->text, "communicator 'world': before operation 64, ranks made different calls"));
}

TEST_CASE("the counts of an all_to_all_v are compared for each pair of ranks, in any order of the reports") {
  auto const roster = ControlPlaneFixture::make_roster(3);
  using Counts = std::vector<std::uint64_t>;
  auto const counted = [](int rank, const Counts& sent, const Counts& received) {
    auto with = report(7, "all_to_all_v of float32");
    with.rank = rank;
    with.send_counts = sent;
    with.recv_counts = received;
    return with;
  };
  auto const first = counted(0, {0, 1, 2}, {0, 3, 4}), second = counted(1, {3, 0, 5}, {1, 0, 6});
  for (std::uint64_t const last : {2, 9}) {
    auto const third = counted(2, {4, 6, 0}, {last, 5, 0});
    for (std::vector<protocol::CallReport> const& order :
         {std::vector{first, second, third}, std::vector{third, second, first}}) {
      CallComparison calls;
      CHECK_FALSE(calls.add(order[0].rank, order[0], roster));
      CHECK_FALSE(calls.add(order[1].rank, order[1], roster));
      auto const failure = calls.add(order[2].rank, order[2], roster);
      REQUIRE(failure.has_value() == (last == 9));
      if (!failure) continue;
      CHECK(failure->code == ErrorCode::usage);
      CHECK(has(failure->text, "rank 0 (host h0, GPU 0000:00:00.0) sends 2 elements to rank 2 (host h2"));
      CHECK(has(failure->text, "whose recv_counts has 9"));
    }
  }
}

TEST_CASE("a rank that reports without end does not exhaust rank 0's memory") {
  auto const roster = ControlPlaneFixture::make_roster(3);
  CallComparison calls;
  for (std::uint64_t number = 0; number < 70'000; ++number)
    REQUIRE_FALSE(calls.add(1, report(number, "barrier"), roster));
  CHECK_FALSE(calls.add(2, report(0, "split"), roster));  // forgotten
  CHECK(calls.add(2, report(69'999, "split"), roster));   // not forgotten
}

TEST_CASE("with too many operations the oldest is forgotten, whatever its communicator is called") {
  auto const roster = ControlPlaneFixture::make_roster(3);
  CallComparison calls;
  REQUIRE_FALSE(calls.add(1, report(1, "barrier", "z"), roster));
  for (std::uint64_t number = 1; number < 65'536; ++number)
    REQUIRE_FALSE(calls.add(1, report(number, "barrier"), roster));
  REQUIRE_FALSE(calls.add(1, report(1, "barrier", "a"), roster));  // one too many
  CHECK(calls.add(2, report(1, "split", "a"), roster));
  CHECK_FALSE(calls.add(2, report(1, "split", "z"), roster));
}
