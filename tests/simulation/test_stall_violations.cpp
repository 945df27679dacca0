// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "catch.hpp"
#include "stall_violations.hpp"

namespace {

using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

constexpr const char* call_name = "all_reduce (operation 1 on communicator 'world')";

std::string warn(int rank, int seconds, const std::string& rest) {
  return fmt::format("rank {} (host h0) waits for {} s in {}{}", rank, seconds, call_name, rest);
}

std::string not_entered(const std::string& ranks) {
  return fmt::format("; not entered by {}, which called nothing there yet", ranks);
}

// Ranks 0 and 1 wait from 1 s to 10 s for rank 2. Rank 0 warns after 2, 4 and 8 s.
simulator::JobResult job_with_stall() {
  simulator::JobResult job;
  job.hosts = 2;
  job.host_of = {0, 0, 1};
  job.first_ranks = 3;
  job.stall_warning = 2s;
  simulator::CallRecord call{{0, 1, 2}, 30s, {{0, {1s, 10s}}, {1, {1s, 10s}}, {2, {10s, 10s}}}};
  job.sessions.push_back({{0, 1, 2}, {{call_name, call}}});
  job.ranks.resize(3);
  for (auto& rank : job.ranks) {
    rank.ended = rank.returned = true;
    rank.when = 11s;
    rank.stays.resize(1);
  }
  auto const late = not_entered("rank 2 (host h1)");
  job.ranks[0].warnings = {{3s, warn(0, 2, late)}, {5s, warn(0, 4, late)}, {9s, warn(0, 8, late)}};
  return job;
}

std::string first_stall_violation(const simulator::JobResult& job) {
  auto const violations = simulator::find_stall_violations(job);
  return violations.empty() ? "" : violations.front();
}

}  // namespace

TEST_CASE("true warnings of a stall are no violations", "[test_stall_violations]") {
  CHECK(first_stall_violation(job_with_stall()).empty());
}

TEST_CASE("a warning that is wrong is a violation", "[test_stall_violations]") {
  auto const late = not_entered("rank 2 (host h1)");
  const auto& [text, violation] = GENERATE_COPY(table<std::string, std::string>({
      {"something is slow", "warned: something is slow"},
      {warn(0, 3, late), "not after a doubling"},
      {warn(0, 1, late), "not after a doubling"},
      {warn(2, 2, not_entered("rank 1 (host h0)")), "nobody waits for so long"},
      {warn(0, 4, late), "nobody waits for so long"},
      {warn(0, 2, not_entered("rank 1 (host h0), rank 2 (host h1)")), "rank 1 has entered"},
      {warn(0, 2, "; all ranks have entered it"), "1 ranks are missing"},
      {warn(0, 2, "; not entered by rank 2 (host h1), whose last call there was barrier (operation 1)"),
       "pid 1002 made another call last"},
      {"call 4 waits: 1 of 3 ranks missing after 2 s: rank 2 (host h1)", "no such call"},
  }));
  auto job = job_with_stall();
  job.ranks[0].warnings[0].text = text;
  INFO(text);
  CHECK_THAT(first_stall_violation(job), ContainsSubstring(violation));
}

TEST_CASE("a warning at a wrong time or of a wrong rank is a violation", "[test_stall_violations]") {
  auto job = job_with_stall();
  std::string violation;
  SECTION("off") {
    job.stall_warning = 0ms;
    violation = "rank 0 warned although it was off";
  }
  SECTION("another rank than rank 0") {
    job.ranks[1].warnings.push_back(job.ranks[0].warnings[1]);
    violation = "not rank 0";
  }
  SECTION("twice") {
    auto again = job.ranks[0].warnings[2];
    again.when += 100ms;
    job.ranks[0].warnings.push_back(again);
    violation = "the same stall again";
  }
  SECTION("missing") {
    job.ranks[0].warnings.erase(job.ranks[0].warnings.begin() + 1);
    violation = "no warning until 5.2500 s, and rank 0 waits in all_reduce";
  }
  SECTION("late") {
    job.ranks[0].warnings[1].when += 500ms;
    violation = "no warning until 5.2500 s, and rank 0 waits in all_reduce";
  }
  SECTION("after the stall") {
    job.ranks[0].warnings[2].when = 10500ms;
    violation = "nobody waits for so long";
  }
  CHECK_THAT(first_stall_violation(job), ContainsSubstring(violation));
}

TEST_CASE("a warning names the rank that waits longest", "[test_stall_violations]") {
  auto job = job_with_stall();
  job.sessions[0].calls.at(call_name).waits[1].begin = 500ms;
  CHECK_THAT(first_stall_violation(job), ContainsSubstring("pid 1001 waits longer"));
}
