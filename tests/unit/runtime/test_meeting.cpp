// SPDX-License-Identifier: Apache-2.0
// Ranks that meet without PMIx.
#include <atomic>

#include "control/connect.hpp"
#include "control/gate.hpp"
#include "meetings.hpp"

using namespace meetings;

TEST_CASE("ranks meet and everybody gets every record") {
  auto const job = new_job();
  std::vector<MeetingPlan> plans;
  for (int r = 0; r < 9; ++r) plans.push_back(plan_of(job, r, 9));
  check_complete(meet(plans, 10s));
}

TEST_CASE("with a key that all know, ranks meet on the first port that is free") {
  asio::io_context io;
  control::Gate other(io);  // another program has the first port
  auto const spare = free_port();
  auto const key = control::random_key();
  std::vector<MeetingPlan> plans;
  for (int r = 0; r < 3; ++r) {
    auto plan = plan_of("test/ports", r, 3);
    plan.local_name.clear();
    plan.seal = nullptr;
    plan.key = key;
    plan.leader_host = "127.0.0.1";
    plan.ports = {other.port(), spare};
    plans.push_back(plan);
  }
  check_complete(meet(plans, 10s));
}

TEST_CASE("the ranks of a host come to rank 0 through one of them") {
  struct Counting : Seal {
    std::vector<std::uint8_t> close(std::span<const std::uint8_t> bytes) override {
      return {bytes.begin(), bytes.end()};
    }
    std::vector<std::uint8_t> open(std::span<const std::uint8_t> sealed) override {
      ++opened;
      return {sealed.begin(), sealed.end()};
    }
    std::atomic<int> opened{0};
  };
  auto const counting = std::make_shared<Counting>();
  auto const job = new_job();
  std::vector<MeetingPlan> plans;
  for (int r = 0; r < 12; ++r) {
    auto plan = plan_of(job, r, 12);
    plan.host_socket = fmt::format("muster/{}/host{}", job, r / 4);
    if (r == 0) plan.seal = counting;
    plans.push_back(plan);
  }
  check_complete(meet(plans, 20s));
  // One a host; rank 0's own host needs none where rank 0 was its first.
  CHECK((counting->opened == 2 || counting->opened == 3));
}

TEST_CASE("ranks of a job whose name is longer than a socket's may be meet, and not those of another") {
  auto const job = new_job() + std::string(200, 'x');
  check_complete(meet({plan_of(job + "1", 0, 2), plan_of(job + "1", 1, 2)}, 10s));
  CHECK(control::local_endpoint(job + "1") != control::local_endpoint(job + "2"));
}
