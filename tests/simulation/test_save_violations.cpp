// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "save_violations.hpp"

namespace {

using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

constexpr const char* loss_text = "rank 2 (host h0), pid 1002, was killed by signal 9";

// Rank 2 is killed. The others save, and their calls throw the loss.
simulator::JobResult job_with_loss() {
  simulator::JobResult job;
  job.hosts = 1;
  job.host_of = {0, 0, 0};
  job.first_ranks = 3;
  job.saves = true;
  job.faults.push_back({simulator::FaultKind::killed, 1s, 2, {2}});
  job.ranks.resize(3);
  for (auto& rank : job.ranks) {
    rank.ended = rank.returned = true;
    rank.when = 2s;
    rank.exit_code = 75;
    rank.stays.push_back(
        {0, 0s, true, {{1100ms, true, loss_text}}, simulator::ThrownLoss{1200ms, loss_text}});
  }
  job.ranks[2].returned = false;
  job.ranks[2].when = 1s;
  job.ranks[2].stays[0].saves.clear();
  job.ranks[2].stays[0].loss.reset();
  return job;
}

std::string first_save_violation(const simulator::JobResult& job) {
  auto const violations = simulator::find_save_violations(job);
  return violations.empty() ? "" : violations.front();
}

}  // namespace

TEST_CASE("one save of each survivor is no violation", "[test_save_violations]") {
  CHECK(first_save_violation(job_with_loss()).empty());
}

TEST_CASE("a save that is missing, wrong or too much is a violation", "[test_save_violations]") {
  auto job = job_with_loss();
  auto& rank = job.ranks[1];
  auto& stay = rank.stays[0];
  std::string violation;
  SECTION("missing") {
    stay.saves.clear();
    violation = "rank 1 did not save before its call threw";
  }
  SECTION("missing, and the call does not throw") {
    stay.saves.clear();
    stay.loss.reset();
    violation = "rank 1 saved 0 times after one loss";
  }
  SECTION("twice") {
    stay.saves.push_back(stay.saves[0]);
    violation = "rank 1 saved 2 times in one job";
  }
  SECTION("late") {
    stay.saves[0].when = 1300ms;
    violation = "rank 1 saved after its call had thrown";
  }
  SECTION("on another thread") {
    stay.saves[0].on_program_thread = false;
    violation = "rank 1 saved on another thread";
  }
  SECTION("of another loss") {
    stay.saves[0].what = "rank 0 is lost";
    violation = "rank 1 saved after 'rank 0 is lost', and its call threw";
  }
  SECTION("and the call does not throw") {
    stay.loss.reset();
    violation = "rank 1 saved and went on";
  }
  SECTION("of the lost rank") {
    job.ranks[2].stays[0].saves = stay.saves;
    violation = "rank 2 saved, and is lost itself";
  }
  SECTION("without a loss") {
    job.faults.clear();
    violation = "rank 0 saved, and no rank was lost";
  }
  SECTION("and the library ends the rank") {
    rank.returned = false;
    rank.ended_by_library = true;
    violation = "the library ended rank 1, which saved";
  }
  SECTION("a call goes on after the failure") {
    stay.overlooked_failure = true;
    violation = "a call of rank 1 went on although the job had failed";
  }
  CHECK_THAT(first_save_violation(job), ContainsSubstring(violation));
}

TEST_CASE("a rank that goes on after a loss has saved", "[test_save_violations]") {
  auto job = job_with_loss();
  job.after_loss = simulator::AfterLoss::shrink;
  job.ranks[1].exit_code = 0;
  job.ranks[1].stays[0].saves.clear();
  job.ranks[1].stays[0].registered = false;
  job.ranks[1].stays.push_back({1, 2s, true});
  CHECK(first_save_violation(job) == "rank 1 went on after a loss and did not save");
}
