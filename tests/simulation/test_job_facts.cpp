// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "job_facts.hpp"

namespace {

bool names_rank_2(const std::string& line) {
  simulator::JobResult result;
  result.faults.push_back({simulator::FaultKind::killed, {}, 2, {2}});
  return simulator::JobFacts(result).names_culprit(line);
}

}  // namespace

TEST_CASE("a line names a culprit as lost, missing, late or different", "[test_job_facts]") {
  auto const* const line = GENERATE(
      "rank 2 (host h0), pid 1002, was killed by signal 9", "join: ranks are missing: pid 1001 pid 1002",
      "rank 5 (host h0), pid 1002, is stopped, silent for 5 s",
      "rank 2 (host h0) left the job while rank 1 (host h0) waits for it in call 3",
      "call 3: 2 of 4 ranks missing after 5 s: rank 1 (host h0), rank 2 (host h0); rank 1 is in call 4",
      "call 3: 1 of 4 ranks missing after 5 s: rank 1 (host h0); rank 2 does not answer",
      "call 3: 1 of 9 ranks missing after 5 s: rank 1 (host h0); ranks 1, 2, 3, 4 and 2 more do not answer",
      "call 3: 1 of 4 ranks missing after 5 s: rank 1 (host h0); rank 1 (host h0) waits in call 2 for rank 2 "
      "(host h0); rank 2 is in call 4",
      "call 3: 1 of 9 ranks missing after 5 s: rank 1 (host h0); ranks 2, 3 are in no call of Muster's; rank "
      "1 "
      "is in call 2",
      "call 3: 3 of 4 ranks missing after 5 s: rank 0 (host h0), rank 1 (host h0) and 1 more; only rank 2 "
      "(host h0) came",
      "all_reduce (operation 1 on communicator 'world') did not complete within 5 s on rank 0 (host h0); not "
      "entered by rank 2 (host h0), which called nothing there yet",
      "operation 1 on communicator 'world': rank 2 (host h0) called all_reduce of 7 float32, sum, but rank 0 "
      "(host h0) called all_reduce of 8 float32, sum: all ranks must make the same calls in the same order",
      "shrink: 1 of 3 ranks are left here, too few to go on; missing: rank 0 (host h0), rank 2 (host h1)");
  INFO(line);
  CHECK(names_rank_2(line));
}

TEST_CASE("a line that has the culprit as a rank that waits, prints or is in a call does not name it",
          "[test_job_facts]") {
  auto const* const line = GENERATE(
      "rank 2 (host h0), pid 1001, was killed by signal 9",
      "rank 1 (host h0) left the job while rank 2 (host h0) waits for it in call 3",
      "call 3: 1 of 4 ranks missing after 5 s: rank 1 (host h0); rank 2 is in call 3",
      "call 3: 1 of 4 ranks missing after 5 s: rank 1 (host h0), never connected to rank 2",
      "all_reduce (operation 2 on communicator 'world') did not complete within 2 s on rank 2 (host h0); not "
      "entered by rank 1 (host h0), which called nothing there yet",
      "operation 1 on communicator 'world': rank 1 (host h0) called all_reduce of 7 float32, sum, but rank 2 "
      "(host h0) called all_reduce of 8 float32, sum: all ranks must make the same calls in the same order");
  INFO(line);
  CHECK_FALSE(names_rank_2(line));
}
