// SPDX-License-Identifier: Apache-2.0
// Operations that take long on several communicators, or while ranks wait elsewhere.
#include "catch.hpp"
#include "control_plane_fixture.hpp"
#include "has.hpp"
#include "thrown_errors.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;

constexpr const char* rule = ": all ranks must make the same calls in the same order";

TEST_CASE(
    "when any rank of an operation is awaited by one that has not entered it, the error is one of usage") {
  ControlPlaneFixture fixture(3);
  std::vector<std::shared_ptr<OperationState>> states;
  for (int rank = 0; rank < 2; ++rank) {
    states.push_back(fixture.planes[static_cast<std::size_t>(rank)]->register_communicator("world"));
    states.back()->number = 1;
    states.back()->inside = true;
  }
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank == 2) plane.broadcast("message from rank 2", {1, 2}, 2, Blob{1}, 20s);
    if (rank == 1) plane.barrier("never", 20s);  // until the job fails; rank 0 is not in it
    std::this_thread::sleep_for(3s);
    plane.fail_operation({0, 1, 2},
                         {.communicator = "world", .number = 1, .operation = "all_reduce", .waited = 3s});
  });
  REQUIRE(thrown[0]);
  INFO(thrown[0]->what());
  CHECK(has(thrown[0]->what(), "waits in message from rank 2 for rank 1 (host h1"));
  CHECK(thrown[0]->exit_code() == 64);
  CHECK(has(thrown[0]->what(), rule));
  CHECK(count_reporters(thrown) == 1);
}

TEST_CASE("when operations of two communicators take long at the same time, the calls of both are compared") {
  ControlPlaneFixture fixture(4, 3);  // rank 3 does not reply, so that the first comparison takes a second
  std::vector<std::shared_ptr<OperationState>> states;
  for (std::size_t rank = 1; rank < 3; ++rank) {
    states.push_back(fixture.planes[rank]->register_communicator("part"));
    states.back()->enter({.kind = detail::OperationKind::all_reduce, .count = rank});
  }
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank == 1) std::this_thread::sleep_for(300ms);
    protocol::StalledOperation report{
        .communicator = rank == 0 ? "world" : "part", .number = 1, .operation = "all_reduce", .waited = 1s};
    report.warning = report.silent = true;
    if (rank < 2) plane.report_operation({rank, rank == 0 ? 3 : 2}, report);
    plane.barrier("epoch", 10s);
  });
  REQUIRE(thrown[0]);
  INFO(thrown[0]->what());
  CHECK(has(thrown[0]->what(), "operation 1 on communicator 'part': rank 1 (host h1"));
  CHECK(has(thrown[0]->what(), "called all_reduce of 1 float32, sum, but rank 2 (host h2"));
  CHECK(has(thrown[0]->what(), rule));
  CHECK(thrown[0]->exit_code() == 64);
}
