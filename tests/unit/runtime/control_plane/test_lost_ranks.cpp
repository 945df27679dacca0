// SPDX-License-Identifier: Apache-2.0
// Losses that do not end the job.
#include <fmt/format.h>

#include "catch.hpp"
#include "has.hpp"
#include "runtime/control_plane/control_plane_fixture.hpp"
#include "runtime/control_plane/thrown_errors.hpp"
#include "soon.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;

TEST_CASE("gathers go on without a rank whose loss the job survives") {
  ControlPlaneFixture fixture(4);
  check_no_errors(fixture.run_on_all([](int, ControlPlane& plane) { plane.survive_loss_of({2, 3}, 10s); }));
  std::vector<int> const everyone{0, 1, 2, 3};
  auto const thrown = fixture.run_on_all([&](int rank, ControlPlane& plane) {
    if (rank == 2) return plane.abort_connections();
    // The round waits for rank 2, or begins after its loss.
    auto const blobs = plane.gather("g", everyone, {static_cast<std::uint8_t>(rank)}, 20s);
    if (blobs != std::vector<Blob>{{0}, {1}, {}, {3}}) throw Error(ErrorCode::system, "another result");
    plane.barrier("after", 20s);
    if (plane.lost_ranks() != std::vector{2}) throw Error(ErrorCode::system, "the loss is not known");
  });
  check_no_errors(thrown);
  // Another loss ends the job.
  auto const ended = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank == 2) return;
    if (rank == 1) return plane.abort_connections();
    plane.barrier("last", 20s);
  });
  REQUIRE(ended[0]);
  CHECK(has(ended[0]->what(), "rank 1 (host h1"));
  CHECK(ended[3]);
}

TEST_CASE("the loss of a host's leader is survived when that of all its ranks is") {
  bool const all = GENERATE(false, true);
  ControlPlaneFixture fixture(4, 4, {0, 0, 2, 2});
  check_no_errors(fixture.run_on_all([&](int, ControlPlane& plane) {
    plane.survive_loss_of(all ? std::vector{2, 3} : std::vector{2}, 10s);
  }));
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank == 2) return plane.abort_connections();
    plane.barrier("without", 20s);
    plane.barrier("after", 20s);
  });
  CHECK(thrown[0].has_value() == !all);
  CHECK(thrown[1].has_value() == !all);
  CHECK(thrown[3].has_value());
}
