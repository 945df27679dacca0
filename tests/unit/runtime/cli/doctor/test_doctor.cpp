// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "doctor/check_table.hpp"
#include "doctor/node_speed.hpp"
#include "doctor/process_limits.hpp"
#include "muster/error.hpp"

using namespace muster::cli::doctor;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::vector<Row> rows{{Verdict::pass, "join", "through pmix", ""},
                            {Verdict::warn, "clocks", "5 s ahead", "start chrony"},
                            {Verdict::skipped, "GPUs", "none", ""}};

// As check_nodes() gathers them: one rank on each node, 5 ms and 12 ms of work, a round trip except on rank
// 0's.
std::vector<NodeMeasures> equal_nodes(std::size_t count) {
  std::vector<NodeMeasures> nodes(count);
  for (std::size_t i = 0; i < count; ++i) {
    nodes[i].host = "n" + std::to_string(i);
    nodes[i][Measure::compute] = 5e-3 + 1e-5 * static_cast<double>(i);
    nodes[i][Measure::copy] = 12e-3;
    nodes[i][Measure::all_reduce] = 1e-3 * static_cast<double>(1 + i * i);  // of one rank: not comparable
    if (i > 0) nodes[i][Measure::round_trip] = 100e-6;
  }
  return nodes;
}

}  // namespace

TEST_CASE("when all nodes are equally fast, none is reported") {
  auto const row = detect_stragglers(equal_nodes(4));
  CHECK(row.verdict == Verdict::pass);
  CHECK(row.found ==
        "none: 4 nodes are alike: computing in 5 to 5.03 ms, copying memory in 12 to 12 ms, round trip to "
        "rank 0 in "
        "0.1 to 0.1 ms");
  // At the limit itself.
  auto nodes = equal_nodes(2);
  nodes[1][Measure::compute] = limit_for(Measure::compute).factor * nodes[0][Measure::compute];
  CHECK(detect_stragglers(nodes).verdict == Verdict::pass);
}

TEST_CASE("a single slow node is named with its slow measure") {
  for (std::size_t const count : {2, 3, 8}) {
    for (std::size_t slow = 0; slow < count; ++slow) {
      auto nodes = equal_nodes(count);
      nodes[slow][Measure::copy] = 20e-3;
      auto const row = detect_stragglers(nodes);
      CHECK(row.verdict == Verdict::warn);
      CHECK(row.found ==
            "n" + std::to_string(slow) + ": copying memory takes 20 ms, on the middle node 12 ms");
      CHECK_THAT(row.fix, ContainsSubstring("memory modules"));
    }
  }
}

TEST_CASE("of several slow nodes the slowest is named, with all its slow measures and a fix for the worst") {
  auto nodes = equal_nodes(5);
  nodes[1][Measure::compute] = 9e-3;
  nodes[3][Measure::compute] = 8e-3;
  nodes[3][Measure::copy] = 60e-3;
  auto const row = detect_stragglers(nodes);
  CHECK(row.found ==
        "n3: computing takes 8 ms, on the middle node 5.04 ms; copying memory takes 60 ms, on the middle "
        "node 12 ms");
  CHECK_THAT(row.fix, ContainsSubstring("memory modules"));
}

TEST_CASE(
    "a round trip is reported only when it is several times longer, and longer by more than the minimum") {
  auto nodes = equal_nodes(4);
  nodes[2][Measure::round_trip] = 500e-6;  // five times, but 0.4 ms
  CHECK(detect_stragglers(nodes).verdict == Verdict::pass);
  nodes[2][Measure::round_trip] = 5e-3;
  CHECK(detect_stragglers(nodes).found == "n2: round trip to rank 0 takes 5 ms, on the middle node 0.1 ms");
  // With two nodes only one has a round trip to rank 0, so there is nothing to compare it with.
  auto two = equal_nodes(2);
  two[1][Measure::round_trip] = 5e-3;
  CHECK(detect_stragglers(two).verdict == Verdict::pass);
}

TEST_CASE("nodes are compared by their all-reduce when all have the same number of ranks, above one") {
  auto nodes = equal_nodes(4);
  CHECK(detect_stragglers(nodes).verdict == Verdict::pass);
  for (auto& node : nodes) node.ranks = 2;
  CHECK(detect_stragglers(nodes).found == "n3: all-reduce on the node takes 10 ms, on the middle node 2 ms");
  nodes[0].ranks = 4;
  CHECK(detect_stragglers(nodes).verdict == Verdict::pass);
}

TEST_CASE("nodes without times do not make another node slow") {
  auto nodes = equal_nodes(3);
  nodes[1].seconds = {};
  CHECK(detect_stragglers(nodes).verdict == Verdict::pass);
  nodes[2].seconds = {};
  CHECK(detect_stragglers(nodes).verdict == Verdict::skipped);
}

TEST_CASE("the microbenchmarks take time") {
  CHECK(time_compute() > 0);
  CHECK(time_copy() > 0);
}

TEST_CASE("the doctor's table has a line for each check, the fix below it, and a count") {
  CHECK(format_table(rows) ==
        "pass     join    through pmix\n"
        "warn     clocks  5 s ahead\n"
        "                 -> start chrony\n"
        "skipped  GPUs    none\n"
        "1 passed, 1 warned, 0 failed, 1 skipped\n");
}

TEST_CASE("only a failed check makes the exit code 1") {
  CHECK(exit_code(rows) == 0);
  auto failed = rows;
  failed.push_back({Verdict::fail, "variables", "NCCL_ALGO differs", "set it alike"});
  CHECK(exit_code(failed) == 1);
}

TEST_CASE("the doctor's JSON can be parsed") {
  auto const report = nlohmann::json::parse(format_json(rows, {"join: alone", "bad \xff byte"}));
  CHECK(report.at("schema") == 1);
  CHECK(report.at("failed") == false);
  REQUIRE(report.at("checks").size() == 3);
  CHECK(report.at("checks").at(1).at("verdict") == "warn");
  CHECK(report.at("checks").at(1).at("fix") == "start chrony");
  CHECK(report.at("trace").at(0) == "join: alone");
}

TEST_CASE("doctor: limits of locked and shared memory are checked where something needs them", "[doctor]") {
  std::vector<muster::Hello> roster(4);
  for (int rank = 0; rank < 4; ++rank) {
    roster[static_cast<std::size_t>(rank)].rank = rank;
    roster[static_cast<std::size_t>(rank)].host = rank < 2 ? "n0" : "n1";
  }
  std::vector<ProcessLimits> limits(4, {unlimited, min_shareable});
  auto const verdicts = [&](const LimitRequirements& requirements) {
    auto const rows = judge_limits(roster, limits, requirements);
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].subject == "locked memory");
    CHECK(rows[1].subject == "/dev/shm");
    return std::pair(rows[0].verdict, rows[1].verdict);
  };
  CHECK(verdicts({true, true}) == std::pair(Verdict::pass, Verdict::pass));
  CHECK(verdicts({false, false}) == std::pair(Verdict::skipped, Verdict::pass));
  limits[3] = {64 << 10, min_shareable - 1};
  limits[2].lockable = 8 << 20;
  CHECK(verdicts({false, false}) == std::pair(Verdict::skipped, Verdict::pass));
  CHECK(verdicts({true, true}) == std::pair(Verdict::warn, Verdict::warn));
  auto const rows_found = judge_limits(roster, limits, {true, true});
  CHECK_THAT(rows_found[0].found, ContainsSubstring("ranks 2-3 (host n1) may lock only 64 KiB"));
  CHECK_THAT(rows_found[1].found, ContainsSubstring("for rank 3 (host n1)"));
  CHECK_THAT(rows_found[0].fix, ContainsSubstring("LimitMEMLOCK"));
  CHECK_THAT(rows_found[1].fix, ContainsSubstring("--shm-size"));
}

TEST_CASE("doctor: rows are decoded as they were encoded", "[doctor]") {
  auto const back = decode_rows(encode_rows(rows));
  CHECK(format_table(back) == format_table(rows));
  CHECK(decode_rows(encode_rows({})).empty());
  CHECK_THROWS_AS(decode_rows({0x81, 0x01}), muster::Error);  // [1]
}
