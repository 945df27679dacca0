// SPDX-License-Identifier: Apache-2.0
// Requests that one rank's control thread answers for another rank.
#include <atomic>
#include <future>

#include "catch.hpp"
#include "control_plane_fixture.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;

namespace {

void register_rank_handlers(ControlPlaneFixture& fixture) {
  for (std::size_t r = 0; r < fixture.planes.size(); ++r) {
    fixture.planes[r]->register_handler("rank", [r](const Blob& request) -> std::optional<Blob> {
      auto response = request;
      response.push_back(static_cast<std::uint8_t>(r));
      return response;
    });
  }
}

}  // namespace

TEST_CASE("every rank gets responses from all ranks, itself included, also through a host leader") {
  ControlPlaneFixture fixture(4, 4, {0, 1, 0, 1});
  register_rank_handlers(fixture);
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    auto const mine = static_cast<std::uint8_t>(100 + rank);
    auto const responses = plane.query_ranks({3, 0, 2, 1}, "rank", Blob{mine}, 20s);
    std::vector<Blob> received;
    for (const auto& response : responses) received.push_back(response.value_or(Blob{}));
    if (received != std::vector<Blob>{{mine, 3}, {mine, 0}, {mine, 2}, {mine, 1}})
      throw Error(ErrorCode::system, "other answers");
  });
  for (const auto& error : thrown) CHECK(!error);
}

TEST_CASE("when there is no handler or no answer, the result is empty and the job goes on") {
  ControlPlaneFixture fixture(3);
  fixture.planes[1]->register_handler("none", [](const Blob&) { return std::optional<Blob>(); });
  CHECK_FALSE(fixture.planes[0]->query_ranks({1}, "none", {}, 20s)[0]);
  CHECK_FALSE(fixture.planes[0]->query_ranks({1}, "unheard of", {}, 20s)[0]);
  CHECK_FALSE(fixture.planes[0]->failed());
}

TEST_CASE("when one rank does not respond by the deadline, the other responses are returned") {
  ControlPlaneFixture fixture(3, 2);  // rank 2 never connects
  register_rank_handlers(fixture);
  // Without all ranks no barrier can show that rank 0 has accepted rank 1.
  auto const until = std::chrono::steady_clock::now() + 20s;
  while (!fixture.planes[0]->query_ranks({1}, "rank", {}, 200ms)[0] &&
         std::chrono::steady_clock::now() < until) {
  }
  auto const responses = fixture.planes[0]->query_ranks({2, 1}, "rank", {}, 2s);
  CHECK_FALSE(responses[0]);
  CHECK(responses[1] == Blob{1});
  CHECK_FALSE(fixture.planes[0]->failed());
}

TEST_CASE("when the job has failed, survivors still respond") {
  ControlPlaneFixture fixture(3);
  register_rank_handlers(fixture);
  fixture.planes[2]->abort_connections();
  auto const until = std::chrono::steady_clock::now() + 20s;
  while (!fixture.planes[1]->failed() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(1ms);
  REQUIRE(fixture.planes[1]->failed());
  auto const responses = fixture.planes[0]->query_ranks({1, 2}, "rank", {}, 2s);
  CHECK(responses[0] == Blob{1});
  CHECK_FALSE(responses[1]);
}

TEST_CASE("when a response comes too late, later requests get their own response") {
  ControlPlaneFixture fixture(2);
  std::atomic<int> calls{0};
  std::promise<void> too_late;
  fixture.planes[1]->register_handler("slow", [&](const Blob&) -> std::optional<Blob> {
    if (calls++ == 0) too_late.get_future().wait();
    return Blob{7};
  });
  CHECK_FALSE(fixture.planes[0]->query_ranks({1}, "slow", {}, 50ms)[0]);
  too_late.set_value();
  CHECK(fixture.planes[0]->query_ranks({1}, "slow", {}, 20s)[0] == Blob{7});
}
