// SPDX-License-Identifier: Apache-2.0
// What is said of an operation that takes long, from where the ranks say that they are.
#include "catch.hpp"
#include "contexts.hpp"
#include "failure/stall_diagnosis.hpp"
#include "has.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;

namespace {

// Rank 3 of four asks about operation 5 of 'world', an all-reduce.
struct Asked {
  explicit Asked(bool warning) {
    Message question{{"group", "world"}, {"number", 5}, {"operation", "all_reduce"}, {"ms", 2000}};
    if (warning) question["warning"] = true;
    inquiry = std::make_unique<StallDiagnosis>(io, 3, question, std::vector<int>{0, 1, 2, 3}, [] {});
  }
  void is_at(int rank, int number, bool inside, const std::string& fifth = "all_reduce") {
    inquiry->hear(rank, {{"number", number}, {"operation", "all_reduce"}, {"inside", inside}, {"at", fifth}});
  }
  // What is said in the end; nothing where nothing is.
  std::string said() const {
    auto const failure = inquiry->conclusion(Star::roster_of(4));
    return failure ? failure->text : "";
  }

  asio::io_context io;
  std::unique_ptr<StallDiagnosis> inquiry;
};

}  // namespace

TEST_CASE("a rank that waits for others is not named as the one that they wait for") {
  bool const warning = GENERATE(false, true);
  std::string const who = "rank 3 (host h3, GPU 0000:03:00.0)";
  SECTION("the others went on") {
    Asked asked(warning);
    for (int rank : {0, 1, 2}) asked.is_at(rank, 5 + rank, false);
    asked.is_at(3, 5, true);
    CHECK(asked.said().ends_with("; every other rank entered it and went on"));
    CHECK(asked.said().find("rank 3") == asked.said().rfind("rank 3"));
  }
  SECTION("its own answer is late") {
    Asked asked(warning);
    for (int rank : {0, 1}) asked.is_at(rank, 5, true);
    CHECK(has(asked.said(), "; no answer from rank 2 (host h2, GPU 0000:02:00.0)"));
    CHECK_FALSE(has(asked.said(), "no answer from rank 2 (host h2, GPU 0000:02:00.0), rank 3"));
  }
  SECTION("others are in it, too") {
    Asked asked(warning);
    asked.is_at(0, 5, false);
    asked.is_at(1, 6, true);
    asked.is_at(2, 5, true);
    asked.is_at(3, 5, true);
    CHECK(asked.said().ends_with("; still in it: rank 2 (host h2, GPU 0000:02:00.0), " + who));
  }
  SECTION("one has not come") {
    Asked asked(warning);
    bool const inside = GENERATE(false, true);
    asked.is_at(0, 4, inside);
    for (int rank : {1, 2}) asked.is_at(rank, 5, false);
    asked.is_at(3, 5, true);
    CHECK(asked.said().ends_with(
        std::string("; not entered by rank 0 (host h0, GPU 0000:00:00.0), ") +
        (inside ? "which is still in all_reduce there" : "whose last call there was all_reduce")));
  }
}

TEST_CASE("where every rank waits only that is said which is known") {
  Asked asked(true);
  for (int rank : {0, 1, 2, 3}) asked.is_at(rank, 5, true);
  CHECK(
      asked.said() ==
      "rank 3 (host h3, GPU 0000:03:00.0) waits for 2 s in all_reduce (operation 5 on communicator 'world'); "
      "every rank entered it and none has left it: the transport between them is stuck or slow");
}

TEST_CASE("nobody is warned of a wait that is over, but of different operations everybody is told") {
  int const number = GENERATE(5, 6, 1);  // 1: of a new communicator of the same name
  bool const inside = number != 5;
  Asked asked(true);
  asked.is_at(0, 4, false);
  for (int rank : {1, 2}) asked.is_at(rank, 5, true);
  asked.is_at(3, number, inside);
  CHECK(asked.said().empty());
  asked.is_at(0, 5, true, "broadcast");
  CHECK(has(asked.said(), "rank 0 (host h0, GPU 0000:00:00.0) called broadcast, but rank "));
  Asked fails(false);  // its program says that it is not in it, and waits all the same
  for (int rank : {0, 1, 2}) fails.is_at(rank, 5, true);
  fails.is_at(3, number, inside);
  CHECK(has(fails.said(), "was not done after 2 s on rank 3 "));
}

TEST_CASE("setting up may take longer than a collective before anybody is warned of it") {
  Star star(2, 2, {}, 10s, 10ms);
  std::vector<detail::CommunicatorGroup> groups;
  for (int rank : {0, 1}) groups.emplace_back(context_of(star, rank, 10s), "world");
  // Other operations than each other's, which a warning shows.
  groups[0].enter_set_up("setting up");
  groups[1].enter("all_reduce");
  Deadline const deadline(60s);
  std::this_thread::sleep_for(50ms);
  groups[0].waiting(deadline);
  for (const char* name : {"what was asked has come", "and was answered"}) {
    for (const auto& error : star.on_each([&](int, ControlPlane& plane) { plane.barrier(name, 20s); }))
      REQUIRE_FALSE(error);
  }
  groups[1].waiting(deadline);
  auto const thrown = star.on_each([&](int, ControlPlane& plane) {
    for (int i = 0; i < 2000 && !plane.failed(); ++i) std::this_thread::sleep_for(10ms);
    plane.check();
  });
  REQUIRE((thrown[0] && thrown[1]));
  CHECK(has(thrown[0]->what(), "rank 0 (host h0, GPU 0000:00:00.0) called setting up"));
}
