// SPDX-License-Identifier: Apache-2.0
// Members of a round, and messages of broken ranks about it.
#include "catch.hpp"
#include "control_plane/coordinator.hpp"
#include "control_plane/gather_round.hpp"
#include "control_plane/rank_ranges.hpp"
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

TEST_CASE("encoding and decoding keep a list of ranks") {
  CHECK(encode_ranks(run(0, 1, 1000), 1000).is_null());
  CHECK(encode_ranks(run(3, 8, 12500), 100000) == Message{{3, 8, 12500}});
  for (const auto& members : {run(0, 1, 8), run(5, 8, 100), run(7, -1, 8), std::vector<int>{4},
                              std::vector<int>{3, 1, 2, 9, 8, 7}, std::vector<int>{}, run(0, 1, 999)}) {
    CHECK(decode_ranks(encode_ranks(members, 1000), 1000) == members);
  }
  CHECK(decode_ranks(nullptr, 3) == std::vector<int>{0, 1, 2});
}

TEST_CASE("when a group has impossible ranks, decoding throws, however large the group is") {
  for (const char* text : {"[[0,1,5]]", "[[-1,1,2]]", "[[0,0,2]]", "[[0,1,2],[1,1,1]]",
                           "[[0,9223372036854775807,3]]", "[[0,1,9223372036854775807]]", "[[3,-1,5]]"}) {
    INFO(text);
    CHECK_THROWS_AS(decode_ranks(Message::parse(text), 4), Error);
  }
  for (const char* text : {"7", "\"x\"", "[1,2]", "[[1,2]]", "[[\"a\",1,1]]"}) {
    INFO(text);
    CHECK_THROWS(decode_ranks(Message::parse(text), 4));
  }
}

TEST_CASE("a round accepts each member once, with the same root and members") {
  asio::io_context io;
  protocol::Contribution const contribution{"r", encode_ranks({2, 0}, 4), -1, 1s, false, {7}};
  GatherRound round(io, contribution, 4);
  CHECK_FALSE(round.add(1, contribution));
  CHECK(round.missing() == std::vector<int>{0, 2});
  CHECK(round.add(2, contribution));
  CHECK_FALSE(round.add(2, contribution));
  CHECK(round.arrived() == std::vector<int>{2});
  CHECK(round.missing() == std::vector<int>{0});
  auto other = contribution;
  other.root = 0;
  CHECK_FALSE(round.add(0, other));
  other = contribution;
  other.members = encode_ranks({0, 2}, 4);
  CHECK_FALSE(round.add(0, other));
  CHECK_FALSE(round.is_complete());
  CHECK(round.add(0, contribution));
  CHECK(round.is_complete());
  CHECK(round.result("r").blobs.size() == 2);
}

TEST_CASE("when a rank sends broken messages, each is refused and none fails later") {
  asio::io_context io;
  Message delivered;
  std::vector<Hello> roster(2);
  roster[1].rank = 1;
  Coordinator coordinator(
      io, [&](const Message& message) { delivered = message; }, roster, {0, 1}, 0ms);
  Message const contribution = encode(protocol::Contribution{"r", nullptr, 0, 0ms, false, {}});
  for (const char* field : {"name", "members", "root", "wait", "last", "blob"}) {
    auto broken = contribution;
    broken.erase(field);
    INFO(field);
    CHECK_THROWS(coordinator.handle(1, broken));
  }
  auto const longest_wait = std::numeric_limits<std::int64_t>::max();
  protocol::StalledOperation report;
  report.communicator = "world";
  report.number = 1;
  report.operation = "all_reduce";
  auto stalled = encode(report);
  stalled["waited"] = longest_wait;
  for (const char* field : {"communicator", "members", "number", "operation", "waited"}) {
    auto broken = stalled;
    broken.erase(field);
    INFO(field);
    CHECK_THROWS(coordinator.handle(1, broken));
  }
  io.poll();  // none of these started a timer
  CHECK(delivered.is_null());
  coordinator.handle(1, stalled);
  CHECK(delivered.at("type") == "rank_state_query");
  auto malformed = encode(protocol::RankState{});
  malformed["number"] = "many";
  CHECK_THROWS(coordinator.handle(1, malformed));
  // The longest waits that fit into a message.
  auto longest = contribution;
  longest["wait"] = longest_wait;
  coordinator.handle(1, longest);
  auto get = encode(protocol::Get{1, "x", 0ms});
  get["wait"] = longest_wait;
  coordinator.handle(1, get);
  io.poll();
  CHECK(delivered.at("type") == "rank_state_query");
  coordinator.handle(1, contribution);
  CHECK(delivered.at("type") == "failure");
  CHECK(delivered.at("reporter") == 1);
  coordinator.close();
}
