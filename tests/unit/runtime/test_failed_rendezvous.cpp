// SPDX-License-Identifier: Apache-2.0
// What is said, and by whom, when ranks do not meet.
#include "rendezvous_fixture.hpp"
#include "rendezvous/auth_failure_server.hpp"
#include "soon.hpp"

using namespace meetings;

TEST_CASE("a rank that does not come is named in one line") {
  auto const job = new_job();
  std::vector<RendezvousConfig> plans;
  for (int r = 0; r < 3; ++r) plans.push_back(plan_of(job, r, 4));
  auto const outcomes = meet(plans, 2s);
  REQUIRE((outcomes[0].error && outcomes[1].error && outcomes[2].error));
  CHECK(speakers(outcomes) == 1);
  CHECK(outcomes[2].error->what() == std::string(outcomes[0].error->what()));
  CHECK(has(outcomes[0].error->what(), "join: 1 of 4 ranks missing after 2 s: rank 3 (host h1)"));
}

TEST_CASE("a rank that is missing behind a host's first is named, and a copy of one is refused") {
  auto job = new_job();
  auto const behind = [&](int rank, int size) {
    auto plan = plan_of(job, rank, size);
    plan.host_socket = fmt::format("muster/{}/host{}", job, rank == 0 ? 0 : 1);
    return plan;
  };
  auto outcomes = meet({behind(0, 5), behind(1, 5), behind(2, 5), behind(3, 5)}, 4s);
  REQUIRE((outcomes[0].error && outcomes[1].error && outcomes[2].error && outcomes[3].error));
  CHECK(speakers(outcomes) == 1);
  CHECK(has(outcomes[0].error->what(), "join: 1 of 5 ranks missing after 4 s: rank 4 (host h2)"));
  for (const auto& outcome : outcomes) CHECK(outcome.error->what() == std::string(outcomes[0].error->what()));
  job = new_job();
  // The copy ends the meeting: who is not there by then speaks for itself.
  outcomes = meet({behind(0, 4), behind(1, 4), behind(2, 4), behind(2, 4)}, 10s, 2s);
  CHECK(speakers(outcomes) == 1);
  REQUIRE(outcomes[0].error);
  CHECK(has(outcomes[0].error->what(), "two processes say that they are rank 2"));
}

TEST_CASE("when rank 0 does not come, one rank of its host says so, whichever came") {
  for (auto const& came : {std::vector<int>{1, 2, 3}, std::vector<int>{3, 2}}) {
    auto const job = new_job();
    std::vector<RendezvousConfig> plans;
    for (int const rank : came) {
      plans.push_back(plan_of(job, rank, 4));
      plans.back().host_socket = "muster/host/" + job;
    }
    auto const outcomes = meet(plans, 400ms);
    for (const auto& outcome : outcomes) REQUIRE(outcome.error);
    CHECK(speakers(outcomes) == 1);
    for (const auto& outcome : outcomes) {
      if (!outcome.error->reported_elsewhere())
        CHECK(has(outcome.error->what(), "cannot meet rank 0 within 400 ms"));
    }
  }
}

TEST_CASE("a rank without MUNGE says so to rank 0, which tells it at the deadline as unproven") {
  auto const job = new_job();
  std::vector<RendezvousConfig> plans;
  for (int r = 0; r < 3; ++r) plans.push_back(plan_of(job, r, 3));
  plans[2].obstacle = AuthFailure::no_munged;
  plans[2].trouble = "join: no munged";
  auto const outcomes = meet(plans, 2s);
  REQUIRE((outcomes[0].error && outcomes[1].error && outcomes[2].error));
  CHECK(speakers(outcomes) == 1);
  CHECK_FALSE(outcomes[0].error->reported_elsewhere());
  CHECK(has(outcomes[0].error->what(),
            "rank 2 (host h1) cannot take part, it says: no munged answers on its host"));
}

TEST_CASE("two processes that are the same rank, and ranks that count differently, end the job") {
  auto job = new_job();
  auto const began = std::chrono::steady_clock::now();
  auto outcomes = meet({plan_of(job, 0, 3), plan_of(job, 1, 3), plan_of(job, 1, 3)}, 2 * soon);
  CHECK(std::chrono::steady_clock::now() - began < soon);
  CHECK(speakers(outcomes) == 1);
  // The two are threads of this process with equal records: pids are told.
  REQUIRE(outcomes[0].error);
  CHECK(outcomes[0].error->code() == ErrorCode::environment);
  CHECK(has(outcomes[0].error->what(), "two processes say that they are rank 1: pid 101 on host h0"));
  job = new_job();
  outcomes = meet({plan_of(job, 0, 3), plan_of(job, 1, 2), plan_of(job, 2, 3)}, 2s);
  REQUIRE(outcomes[0].error);
  CHECK(has(outcomes[0].error->what(),
            "rank 1 (host h0) was told that there are 2 ranks, but rank 0 that there are 3"));
}

TEST_CASE("a rank 0 without MUNGE says so in the job's one line, and the others keep quiet") {
  auto const job = new_job();
  auto const port = free_port();
  std::vector<RendezvousConfig> plans;
  for (int r = 0; r < 4; ++r) plans.push_back(plan_over_tcp(job, r, 4, {port}));
  for (std::size_t r : {0u, 1u}) {
    plans[r].obstacle = AuthFailure::no_library;
    plans[r].trouble = "join: MUNGE cannot authenticate them";
  }
  SECTION("on its host only") {}
  SECTION("nor anybody else") {
    for (std::size_t r : {2u, 3u}) {
      plans[r].obstacle = AuthFailure::no_munged;
      plans[r].trouble = "join: no munged";
    }
  }
  auto const outcomes = meet(plans, 3s);
  for (const auto& outcome : outcomes) REQUIRE(outcome.error);
  CHECK(speakers(outcomes) == 1);
  CHECK(outcomes[0].error->what() == std::string("join: MUNGE cannot authenticate them"));
  CHECK_FALSE(outcomes[0].error->reported_elsewhere());
  if (plans[2].obstacle != AuthFailure::none) return;
  CHECK((has(outcomes[2].error->what(), "cannot take part, it says: its host has no MUNGE library") ||
         has(outcomes[3].error->what(), "cannot take part, it says: its host has no MUNGE library")));
}

TEST_CASE("who says falsely that rank 0 cannot lead keeps nobody from meeting it") {
  auto const job = new_job();
  std::vector<std::uint16_t> const ports{free_port(), free_port()};
  std::vector<RendezvousConfig> plans;
  for (int const r : {1, 2, 3, 0}) plans.push_back(plan_over_tcp(job, r, 4, ports));
  auto lie = plan_over_tcp(job, 0, 4, ports);
  lie.obstacle = AuthFailure::no_library;
  std::thread liar([&] { serve_auth_failure(lie, Deadline(3s)); });
  check_complete(meet(plans, 15s, 4s));
  liar.join();
}
