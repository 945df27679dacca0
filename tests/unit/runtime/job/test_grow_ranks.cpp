// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "catch.hpp"
#include "job/grow_ranks.hpp"
#include "runtime/control_plane/control_plane_fixture.hpp"

using namespace muster;
using namespace muster::control;
using namespace muster::detail;

namespace {

std::shared_ptr<ControlPlane> start_rank_0_of_two() {
  auto plane = ControlPlane::listen(random_key());
  plane->start_coordinator({ControlPlaneFixture::make_roster(2), {}});
  return plane;
}

}  // namespace

TEST_CASE("a rank stops waiting for the grown job when the job before it fails") {
  auto const before = start_rank_0_of_two();
  auto const grown = start_rank_0_of_two();
  SECTION("before it waits") { before->report_failure(ErrorCode::lost_rank, "a rank is lost"); }
  SECTION("while it waits") {
    std::thread([before] {
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
      before->report_failure(ErrorCode::lost_rank, "a rank is lost");
    }).detach();
  }
  CHECK_THROWS_AS(await_connections(grown, *before, std::chrono::minutes{10}), Error);
  CHECK(before->failed());
  CHECK_FALSE(grown->failed());
}
