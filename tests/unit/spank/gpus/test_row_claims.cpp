// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "catch.hpp"
#include "gpus/row_claims.hpp"

using namespace muster::spank;

TEST_CASE("A task gets the first free row of its list, else any free row, and no row is claimed twice") {
  RowClaims claims(3);
  CHECK(claims.claim(0, {2, 0}) == 2);
  CHECK(claims.claim(1, {2, 1}) == 1);
  CHECK(claims.claim(2, {2, 1, 7, -1}) == 0);
}

TEST_CASE("Tasks in separate processes never claim the same row, and the last one sees all claims") {
  constexpr int tasks = 16;
  RowClaims claims(tasks);
  int seen[2];
  REQUIRE(pipe(seen) == 0);
  for (int task = 0; task < tasks; ++task) {
    if (fork() != 0) continue;
    ClaimedRow claimed;
    claimed.rank = 100 + task;
    claimed.gpus[static_cast<std::size_t>(task)] = true;
    claimed.row = claims.claim(static_cast<std::size_t>(task), {0, 1, 2, 3});  // all prefer the same
    const bool last = claims.arrive(static_cast<std::size_t>(task), claimed);
    for (int other = 0; last && other < tasks; ++other) {
      const ClaimedRow& one = claims.claimed_by(static_cast<std::size_t>(other));
      const bool whole =
          one.rank == 100 + other && one.gpus.count() == 1 && one.gpus[static_cast<std::size_t>(other)];
      const char row = static_cast<char>(whole ? one.row : -1);
      if (write(seen[1], &row, 1) != 1) _exit(1);
    }
    _exit(0);
  }
  close(seen[1]);
  for (int task = 0; task < tasks; ++task) {
    int status = -1;
    CHECK(wait(&status) > 0);
    CHECK(status == 0);
  }
  std::set<int> rows;
  char row = 0;
  int count = 0;
  for (; read(seen[0], &row, 1) == 1; ++count) rows.insert(row);
  close(seen[0]);
  CHECK(count == tasks);  // exactly one task was the last
  CHECK(rows.size() == tasks);
  CHECK(*rows.begin() == 0);
}
