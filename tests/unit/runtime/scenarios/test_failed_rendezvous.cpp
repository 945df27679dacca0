// SPDX-License-Identifier: Apache-2.0
// Which errors are reported, and by which rank, when ranks do not meet.
#include "runtime/rendezvous/rendezvous_fixture.hpp"
#include "soon.hpp"

using namespace rendezvous_test;

TEST_CASE("when a rank is missing, one line names it") {
  auto const job = new_job();
  std::vector<RendezvousConfig> configs;
  for (int r = 0; r < 3; ++r) configs.push_back(make_config(job, r, 4));
  auto const outcomes = join_all(configs, 5s);
  REQUIRE((outcomes[0].error && outcomes[1].error && outcomes[2].error));
  CHECK(count_reporters(outcomes) == 1);
  CHECK(outcomes[2].error->what() == std::string(outcomes[0].error->what()));
  CHECK(has(outcomes[0].error->what(), "join: 1 of 4 ranks missing after 5 s: rank 3 (host h1)"));
}

TEST_CASE("when a rank behind a host leader is missing, it is named; a second process of a rank is refused") {
  auto job = new_job();
  auto const behind_leader = [&](int rank, int size) {
    auto config = make_config(job, rank, size);
    config.host_socket = fmt::format("muster/{}/host{}", job, rank == 0 ? 0 : 1);
    return config;
  };
  auto outcomes =
      join_all({behind_leader(0, 5), behind_leader(1, 5), behind_leader(2, 5), behind_leader(3, 5)}, 4s);
  REQUIRE((outcomes[0].error && outcomes[1].error && outcomes[2].error && outcomes[3].error));
  CHECK(count_reporters(outcomes) == 1);
  CHECK(has(outcomes[0].error->what(), "join: 1 of 5 ranks missing after 4 s: rank 4 (host h2)"));
  for (const auto& outcome : outcomes) CHECK(outcome.error->what() == std::string(outcomes[0].error->what()));
  job = new_job();
  // The second process ends the rendezvous: a rank that joins later would report its own error.
  outcomes =
      join_all({behind_leader(0, 4), behind_leader(1, 4), behind_leader(2, 4), behind_leader(2, 4)}, 10s, 2s);
  CHECK(count_reporters(outcomes) == 1);
  REQUIRE(outcomes[0].error);
  CHECK(has(outcomes[0].error->what(), "two processes claim to be rank 2"));
}

TEST_CASE("when rank 0 is missing, one rank of its host reports it, whichever ranks are there") {
  for (auto const& present : {std::vector<int>{1, 2, 3}, std::vector<int>{3, 2}}) {
    auto const job = new_job();
    std::vector<RendezvousConfig> configs;
    for (int const rank : present) {
      configs.push_back(make_config(job, rank, 4));
      configs.back().host_socket = "muster/host/" + job;
    }
    auto const outcomes = join_all(configs, 400ms);
    for (const auto& outcome : outcomes) REQUIRE(outcome.error);
    CHECK(count_reporters(outcomes) == 1);
    for (const auto& outcome : outcomes) {
      if (!outcome.error->reported_elsewhere())
        CHECK(has(outcome.error->what(), "cannot meet rank 0 within 400 ms"));
    }
  }
}

TEST_CASE("a rendezvous that is interrupted ends on each rank, whoever is missing") {
  for (auto const& present : {std::vector<int>{0, 1, 2}, std::vector<int>{1, 2, 3}}) {
    auto const job = new_job();
    auto const begin = std::chrono::steady_clock::now();
    std::vector<RendezvousConfig> configs;
    for (int const rank : present) {
      configs.push_back(make_config(job, rank, 4));
      configs.back().interrupted = [begin] { return std::chrono::steady_clock::now() - begin > 100ms; };
    }
    for (const auto& outcome : join_all(configs, 10min)) {
      REQUIRE(outcome.error);
      CHECK(outcome.error->code() == ErrorCode::lost_rank);
    }
    CHECK(std::chrono::steady_clock::now() - begin < soon);
  }
}

TEST_CASE("when two processes claim one rank, or ranks expect different sizes, the job ends") {
  auto job = new_job();
  auto const began = std::chrono::steady_clock::now();
  auto outcomes =
      join_all({make_config(job, 0, 3), make_config(job, 1, 3), make_config(job, 1, 3)}, 2 * soon);
  CHECK(std::chrono::steady_clock::now() - began < soon);
  CHECK(count_reporters(outcomes) == 1);
  // The two are threads of this process with equal records, so the text has one pid twice.
  REQUIRE(outcomes[0].error);
  CHECK(outcomes[0].error->code() == ErrorCode::environment);
  CHECK(has(outcomes[0].error->what(), "two processes claim to be rank 1: pid 101 on host h0"));
  job = new_job();
  outcomes = join_all({make_config(job, 0, 3), make_config(job, 1, 2), make_config(job, 2, 3)}, soon);
  REQUIRE(outcomes[0].error);
  CHECK(has(outcomes[0].error->what(), "rank 1 (host h0) expects 2 ranks but rank 0 expects 3"));
}
