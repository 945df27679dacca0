// SPDX-License-Identifier: Apache-2.0
// How long a failure takes until the program sees it.
#include <chrono>
#include <stdexcept>
#include <thread>

#include "catch.hpp"
#include "clock.hpp"
#include "failure/background_errors.hpp"
#include "failure/mailbox.hpp"
#include "repeat_error.hpp"

using namespace muster;
using namespace muster::control;

namespace {

// As rank 2. Returns whether the error was printed elsewhere.
bool throws_elsewhere(const Mailbox& mailbox) {
  try {
    mailbox.check();
  } catch (const Error& error) {
    return error.reported_elsewhere();
  }
  throw std::runtime_error("check() threw nothing");
}

const Failure loss_of_rank_1{ErrorCode::lost_rank, 0, "rank 1 is lost"};

}  // namespace

TEST_CASE("a loss that the job tolerates is thrown without the wait for the rank that prints") {
  constexpr int losses = 8;
  auto const begin = Clock::now();
  for (int i = 0; i < losses; ++i) {
    Mailbox mailbox(2);
    mailbox.fail(loss_of_rank_1, false, true);
    CHECK(throws_elsewhere(mailbox));
  }
  // As long as these waits would take together.
  CHECK(Clock::now() - begin < losses * remote_error_delay);
}

TEST_CASE("a tolerated loss is printed by this rank if the rank that should print has ended") {
  Mailbox mailbox(2);
  mailbox.begin_reporter_check();
  mailbox.fail(loss_of_rank_1, false, true);
  std::thread check([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    mailbox.end_reporter_check(true);
  });
  CHECK_FALSE(throws_elsewhere(mailbox));
  check.join();
}

TEST_CASE("the program has not observed a failure whose error Muster keeps, so this rank prints it") {
  Mailbox mailbox(0);
  int calls = 0;
  mailbox.on_loss([&](const Failure&) { ++calls; });
  mailbox.fail(loss_of_rank_1);
  {
    BackgroundErrors const kept;
    CHECK_THROWS_AS(mailbox.check(), Error);
  }
  CHECK(calls == 0);
  CHECK_FALSE(mailbox.failure_observed());
  CHECK(mailbox.claim_report());
  CHECK(throws_elsewhere(mailbox));
  CHECK(calls == 1);
  CHECK(mailbox.failure_observed());
}
