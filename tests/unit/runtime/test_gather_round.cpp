// SPDX-License-Identifier: Apache-2.0
// Who takes part in a round, and what broken ranks say about it.
#include "catch.hpp"
#include "control_plane/coordinator.hpp"
#include "control_plane/rank_ranges.hpp"
#include "control_plane/gather_round.hpp"
#include "failure/stall_diagnosis.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;

namespace {

std::vector<int> run(int first, int step, int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * step);
  return ranks;
}

}  // namespace

TEST_CASE("groups are written as runs and come back as they were") {
  CHECK(members_to_message(run(0, 1, 1000), 1000).is_null());
  CHECK(members_to_message(run(3, 8, 12500), 100000) == Message{{3, 8, 12500}});
  for (const auto& members : {run(0, 1, 8), run(5, 8, 100), run(7, -1, 8), std::vector<int>{4},
                              std::vector<int>{3, 1, 2, 9, 8, 7}, std::vector<int>{}, run(0, 1, 999)}) {
    CHECK(members_from(members_to_message(members, 1000), 1000) == members);
  }
  CHECK(members_from(nullptr, 3) == std::vector<int>{0, 1, 2});
}

TEST_CASE("a group with impossible ranks is refused, however large it says it is") {
  for (const char* text : {"[[0,1,5]]", "[[-1,1,2]]", "[[0,0,2]]", "[[0,1,2],[1,1,1]]",
                           "[[0,9223372036854775807,3]]", "[[0,1,9223372036854775807]]", "[[3,-1,5]]"}) {
    INFO(text);
    CHECK_THROWS_AS(members_from(Message::parse(text), 4), Error);
  }
  for (const char* text : {"7", "\"x\"", "[1,2]", "[[1,2]]", "[[\"a\",1,1]]"}) {
    INFO(text);
    CHECK_THROWS(members_from(Message::parse(text), 4));
  }
}

TEST_CASE("a round takes each member once, and only those who mean the same") {
  asio::io_context io;
  Arrival const arrival{"r", members_to_message({2, 0}, 4), -1, 1s, false, {7}};
  GatherRound round(io, arrival, 4);
  CHECK_FALSE(round.take(1, arrival));
  CHECK(round.missing() == std::vector<int>{2, 0});
  CHECK(round.take(2, arrival));
  CHECK_FALSE(round.take(2, arrival));
  CHECK(round.first_there() == 2);
  CHECK(round.missing() == std::vector<int>{0});
  auto other = arrival;
  other.root = 0;
  CHECK_FALSE(round.take(0, other));
  other = arrival;
  other.members = members_to_message({0, 2}, 4);
  CHECK_FALSE(round.take(0, other));
  CHECK_FALSE(round.complete());
  CHECK(round.take(0, arrival));
  CHECK(round.complete());
  CHECK(round.result("r").at("blobs").size() == 2);
}

TEST_CASE("what a broken rank says is refused at once and leaves nothing behind that fails later") {
  asio::io_context io;
  Message said;
  Leader leader(io, [&](const Message& message) { said = message; });
  std::vector<Hello> roster(2);
  roster[1].rank = 1;
  leader.open(roster, {0, 1}, random_key(), 0ms);
  Message const arrival = to_message(Arrival{"r", nullptr, 0, 0ms, false, {}});
  for (const char* field : {"name", "root", "ms", "last", "blob"}) {
    auto broken = arrival;
    broken.erase(field);
    INFO(field);
    CHECK_THROWS(leader.handle(1, broken));
  }
  Message const stalled{{"is", "stalled"},           {"group", "world"},
                        {"members", nullptr},        {"number", 1},
                        {"operation", "all_reduce"}, {"ms", std::numeric_limits<std::int64_t>::max()}};
  for (const char* field : {"group", "members", "number", "operation", "ms"}) {
    auto broken = stalled;
    broken.erase(field);
    INFO(field);
    CHECK_THROWS(leader.handle(1, broken));
  }
  io.poll();  // no timer of any of these
  CHECK(said.is_null());
  leader.handle(1, stalled);
  CHECK(said.at("is") == "where");
  CHECK_THROWS(leader.handle(1, {{"is", "here"}, {"group", "world"}, {"number", "many"}, {"operation", ""}}));
  // The longest waits that a message can name.
  auto longest = arrival;
  longest["ms"] = std::numeric_limits<std::int64_t>::max();
  leader.handle(1, longest);
  leader.handle(1,
                {{"is", "get"}, {"name", "x"}, {"id", 1}, {"ms", std::numeric_limits<std::int64_t>::max()}});
  io.poll();
  CHECK(said.at("is") == "where");
  leader.handle(1, arrival);
  CHECK(said.at("is") == "failure");
  CHECK(said.at("speaker") == 1);
  leader.close();
}
