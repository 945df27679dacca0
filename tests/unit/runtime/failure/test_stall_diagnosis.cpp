// SPDX-License-Identifier: Apache-2.0
// The text about an operation that takes too long, from the ranks' replies.
#include "catch.hpp"
#include "failure/stall_diagnosis.hpp"
#include "has.hpp"
#include "runtime/communicator/contexts.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;

namespace {

// Rank 3 of four reports operation 5 of 'world', an all-reduce.
struct StallFixture {
  explicit StallFixture(bool warning) {
    report.communicator = "world";
    report.number = 5;
    report.operation = "all_reduce";
    report.waited = 2s;
    report.warning = warning;
  }
  void add_reply_of(int rank, std::uint64_t number, bool inside, const std::string& fifth = "all_reduce") {
    states[rank] = {0, number, "all_reduce", inside, fifth, {}, "", ""};
  }
  StallDiagnosis diagnosis() const { return {3, report, {0, 1, 2, 3}}; }
  // The resulting text; empty when there is none.
  std::string text() const {
    auto const failure = diagnosis().diagnose(ControlPlaneFixture::make_roster(4), states);
    return failure ? failure->text : "";
  }

  protocol::StalledOperation report;
  RankStates states;
};

}  // namespace

TEST_CASE("the reporter is not named as a rank that others wait for") {
  bool const warning = GENERATE(false, true);
  std::string const reporter = "rank 3 (host h3, GPU 0000:03:00.0)";
  SECTION("the other ranks went on") {
    StallFixture stall(warning);
    for (int rank : {0, 1, 2}) stall.add_reply_of(rank, 5 + static_cast<std::uint64_t>(rank), false);
    stall.add_reply_of(3, 5, true);
    CHECK(stall.text().ends_with("; every other rank entered it and went on"));
    CHECK(stall.text().find("rank 3") == stall.text().rfind("rank 3"));
  }
  SECTION("its own reply is late") {
    StallFixture stall(warning);
    for (int rank : {0, 1}) stall.add_reply_of(rank, 5, true);
    CHECK(has(stall.text(), "; no answer from rank 2 (host h2, GPU 0000:02:00.0)"));
    CHECK_FALSE(has(stall.text(), "no answer from rank 2 (host h2, GPU 0000:02:00.0), rank 3"));
  }
  SECTION("another rank waits in it, too") {
    StallFixture stall(warning);
    stall.add_reply_of(0, 5, false);
    stall.add_reply_of(1, 6, true);
    stall.add_reply_of(2, 5, true);
    stall.add_reply_of(3, 5, true);
    CHECK(stall.text().ends_with("; still in it: rank 2 (host h2, GPU 0000:02:00.0), " + reporter));
  }
  SECTION("one rank has not entered it") {
    StallFixture stall(warning);
    bool const inside = GENERATE(false, true);
    stall.add_reply_of(0, 4, inside);
    for (int rank : {1, 2}) stall.add_reply_of(rank, 5, false);
    stall.add_reply_of(3, 5, true);
    CHECK(stall.text().ends_with(
        std::string("; not entered by rank 0 (host h0, GPU 0000:00:00.0), ") +
        (inside ? "which is still in all_reduce there" : "whose last call there was all_reduce")));
  }
}

TEST_CASE("when every rank waits, the text says that none has left") {
  StallFixture stall(true);
  for (int rank : {0, 1, 2, 3}) stall.add_reply_of(rank, 5, true);
  CHECK(
      stall.text() ==
      "rank 3 (host h3, GPU 0000:03:00.0) waits for 2 s in all_reduce (operation 5 on communicator 'world'); "
      "every rank entered it and none has left it: the transport between them is stuck or slow");
}

TEST_CASE("when the reporter no longer waits there is no warning, but different operations still fail") {
  std::uint64_t const number = GENERATE(5, 6, 1);  // 1: a new communicator with the same name
  bool const inside = number != 5;
  StallFixture stall(true);
  stall.add_reply_of(0, 4, false);
  for (int rank : {1, 2}) stall.add_reply_of(rank, 5, true);
  stall.add_reply_of(3, number, inside);
  CHECK(stall.text().empty());
  stall.add_reply_of(0, 5, true, "broadcast");
  CHECK(has(stall.text(), "rank 0 (host h0, GPU 0000:00:00.0) called broadcast, but rank "));
  StallFixture fails(false);  // not a warning: its reply does not matter
  for (int rank : {0, 1, 2}) fails.add_reply_of(rank, 5, true);
  fails.add_reply_of(3, number, inside);
  CHECK(has(fails.text(), "did not complete within 2 s on rank 3 "));
}

TEST_CASE("the first operation in which the ranks differ is found, although all of them completed it") {
  StallFixture stall(true);
  for (int rank : {0, 1, 2, 3}) {
    stall.add_reply_of(rank, 5, true);
    stall.states[rank].digests = {50, 40, 30, 20};
  }
  CHECK_FALSE(stall.diagnosis().first_mismatch(stall.states));
  stall.states[1].digests = {51, 41, 30, 20};
  CHECK(stall.diagnosis().first_mismatch(stall.states) == 4);
  stall.states[2].digests = {};  // not known
  CHECK(stall.diagnosis().first_mismatch(stall.states) == 4);
  stall.states[0].digests = {50, 40, 30, 21};
  CHECK(stall.diagnosis().first_mismatch(stall.states) == 2);
  SECTION("a rank that comes later in the order of calls knows less") {
    stall.add_reply_of(1, 4, true);
    stall.states[1].digests = {40, 31, 20};
    stall.states[0].digests = {50, 40, 30, 20};
    CHECK(stall.diagnosis().first_mismatch(stall.states) == 3);
    return;
  }
  // The arguments of the calls are the same, as far as they are known.
  CHECK(has(stall.text(),
            "operation 5 on communicator 'world': ranks called all_reduce with different arguments, "
            "or made different calls before"));
}

TEST_CASE("when a communicator is set up, the stall warning comes later than in a collective") {
  ControlPlaneFixture fixture(2, 2, {}, 10s, 10ms);
  std::vector<detail::CommunicatorGroup> groups;
  for (int rank : {0, 1}) groups.emplace_back(make_connected_context(fixture, rank, 10s), "world");
  // Two different operations: a warning then fails the job.
  groups[0].begin_setup("setting up");
  groups[1].begin_operation("all_reduce");
  Deadline const deadline(60s);
  std::this_thread::sleep_for(50ms);
  groups[0].warn_if_stalled(deadline);
  for (const char* name : {"what was asked has come", "and was answered"}) {
    for (const auto& error : fixture.run_on_all([&](int, ControlPlane& plane) { plane.barrier(name, 20s); }))
      REQUIRE_FALSE(error);
  }
  groups[1].warn_if_stalled(deadline);
  auto const thrown = fixture.run_on_all([&](int, ControlPlane& plane) {
    for (int i = 0; i < 2000 && !plane.failed(); ++i) std::this_thread::sleep_for(10ms);
    plane.check();
  });
  REQUIRE((thrown[0] && thrown[1]));
  CHECK(has(thrown[0]->what(), "rank 0 (host h0, GPU 0000:00:00.0) called setting up"));
}
