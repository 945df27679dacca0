// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <random>

#include "catch.hpp"
#include "control_plane_fixture.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;

namespace {

// Rank 0's clocks are ahead by these. The request takes `there` and the reply `back`, all in nanoseconds.
constexpr std::int64_t system_ahead = -7'000'000'123;
constexpr std::int64_t steady_ahead = 900'000'000'000'000;

ClockSample sample(std::int64_t at, std::int64_t there, std::int64_t back) {
  std::int64_t const epoch = 1'700'000'000'000'000'000;
  return {{epoch + at, at},
          {epoch + at + there + system_ahead, at + there + steady_ahead},
          {epoch + at + there + back, at + there + back}};
}

}  // namespace

TEST_CASE("when request and reply take equally long, the offset of both clocks is exact") {
  std::vector const samples{sample(1'000'000, 50'000, 50'000)};
  auto const offset = estimate_offset(samples);
  CHECK(offset.system.count() == system_ahead);
  CHECK(offset.steady.count() == steady_ahead);
  CHECK(offset.round_trip == 100us);
}

TEST_CASE("the shortest sample counts, and its error is at most half of its round trip") {
  std::mt19937 random(7);
  std::uniform_int_distribution<std::int64_t> delay(20'000, 5'000'000);
  for (int run = 0; run < 200; ++run) {
    std::vector<ClockSample> samples;
    std::int64_t shortest = INT64_MAX;
    for (int i = 0; i < 8; ++i) {
      auto const there = delay(random);
      auto const back = delay(random);
      shortest = std::min(shortest, there + back);
      samples.push_back(sample(i * 20'000'000, there, back));
    }
    auto const offset = estimate_offset(samples);
    CHECK(offset.round_trip.count() == shortest);
    CHECK(std::abs(offset.system.count() - system_ahead) <= shortest / 2);
    CHECK(std::abs(offset.steady.count() - steady_ahead) <= shortest / 2);
  }
}

TEST_CASE("the true offset of a clock that was read between two moments is within the bounds") {
  std::int64_t const connected = 1'700'000'000'000'000'000;
  for (std::int64_t const read_after : {0, 250'000, 1'000'000}) {
    auto const offset =
        bound_offset(connected + read_after + 7'000'000'123, connected, connected + 1'000'000);
    CHECK(offset.uncertainty == 500us);
    CHECK(std::chrono::abs(offset.ahead - 7'000'000'123ns) <= offset.uncertainty);
  }
}

TEST_CASE("rank 0 has the clock of each host leader that sent it before a barrier") {
  ControlPlaneFixture fixture(4, 4, {0, 0, 2, 3});
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank >= 2) plane.report_clock();
    plane.barrier("after the clocks", 10s);
  });
  for (const auto& error : thrown) CHECK(!error);
  auto const& clocks = fixture.planes[0]->host_clocks();
  REQUIRE(clocks.size() == 2);
  for (int const rank : {2, 3})
    CHECK(std::chrono::abs(clocks.at(rank).ahead) <= clocks.at(rank).uncertainty + 1ms);
}

TEST_CASE("without a sample the offset is zero") {
  auto const offset = estimate_offset({});
  CHECK(offset.system == 0ns);
  CHECK(offset.steady == 0ns);
  CHECK(offset.round_trip == 0ns);
}

TEST_CASE("ranks on one kernel measure no offset beyond the uncertainty, also through a host leader") {
  ControlPlaneFixture fixture(4, 4, {0, 1, 0, 1});
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    auto const offset = measure_clock_offset(plane);
    // Threads of this process have one clock.
    if (std::chrono::abs(offset.steady) > offset.round_trip / 2 + 1us)
      throw Error(ErrorCode::system, "the steady clock's offset is beyond its bound");
    if (std::chrono::abs(offset.system) > offset.round_trip / 2 + 1ms)
      throw Error(ErrorCode::system, "the system clock's offset is beyond its bound");
    if ((offset.round_trip > 0ns) != (rank != 0))
      throw Error(ErrorCode::system, "only rank 0 must not measure");
    plane.final_barrier("leave", 10s);
    plane.leave();
  });
  for (const auto& error : thrown) CHECK(!error);
}

TEST_CASE("when rank 0 has ended, the measurement fails and names it") {
  ControlPlaneFixture fixture(3);
  fixture.planes[0]->abort_connections();
  auto const thrown = [&] {
    try {
      for (;;) measure_clock_offset(*fixture.planes[1], 1, 2s);
    } catch (const Error& error) {
      return std::string(error.what());
    }
  }();
  CHECK(thrown.find("rank 0 (host h0, GPU 0000:00:00.0)") != std::string::npos);
}
