// SPDX-License-Identifier: Apache-2.0
// How NCCL communicators end together, and a new world after all were aborted, on fakes of CUDA
// and NCCL.
#include <cstdlib>

#include "communicator/nccl/gpu.hpp"
#include "runtime/communicator/contexts.hpp"
#include "runtime/fakes/fakes.hpp"

using namespace muster;
using namespace std::chrono_literals;

TEST_CASE("communicators are aborted together, not one after another") {
  Fakes const fakes("", "slow_abort");
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  Communicator world(
      gpu->world(detail::CommunicatorGroup(make_single_rank_context(), "world"), Deadline(10s)));
  auto a = world.split(0);
  auto b = world.split(0);
  CHECK(nccl_count("fake_nccl_live") == 3);
  gpu->abort();
  CHECK(nccl_count("fake_nccl_most_aborting") == 3);
  CHECK(nccl_count("fake_nccl_live") == 0);  // all of them have completed
}

TEST_CASE("when a job has failed, dropping one communicator aborts all of them") {
  Fakes const fakes("", "slow_abort");
  ControlPlaneFixture fixture(2);
  fixture.run_on_all([&](int rank, control::ControlPlane& plane) {
    auto const gpu = detail::open_gpu("", 0, "rank");
    std::vector<Communicator> made;
    made.emplace_back(gpu->world(
        detail::CommunicatorGroup(make_connected_context(fixture, rank, 10s), "world"), Deadline(10s)));
    for (int i = 0; i < 3; ++i) made.push_back(made.front().split(0));
    if (rank == 1) made.clear();  // in order
    plane.barrier("made", 10s);
    if (rank == 1) return plane.abort_connections();
    // The control plane reports the loss, not a call of NCCL.
    CHECK(catch_error([&] { plane.barrier("met", 10s); }).code() == ErrorCode::lost_rank);
    made.pop_back();
    CHECK(nccl_count("fake_nccl_most_aborting") == 4);
    CHECK(nccl_count("fake_nccl_live") == 0);  // all of them have completed
  });
}

TEST_CASE("when a job is left, its communicators end together, not one after another") {
  Fakes const fakes("", "slow_destroy");
  int const aborted = nccl_count("fake_nccl_aborted");
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  Communicator world(
      gpu->world(detail::CommunicatorGroup(make_single_rank_context(), "world"), Deadline(10s)));
  auto a = world.split(0);
  auto b = world.split(0);
  gpu->finalize(Deadline(5s));
  CHECK(nccl_count("fake_nccl_most_destroying") == 3);
  CHECK(nccl_count("fake_nccl_live") == 0);  // all of them have completed
  CHECK(nccl_count("fake_nccl_aborted") == aborted);
}

TEST_CASE("after all communicators were aborted, a new world can be made") {
  Fakes const fakes;
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  auto const job = make_single_rank_context();
  Communicator world(gpu->world(detail::CommunicatorGroup(job, "world"), Deadline(10s)));
  auto const part = world.split(0);
  gpu->abort_all();
  CHECK(nccl_count("fake_nccl_live") == 0);  // although the program still holds them
  Communicator next(gpu->world(detail::CommunicatorGroup(job, "world"), Deadline(10s)));
  std::vector<float> values{1, 2};
  next.all_reduce(std::span<float>(values));
  next.synchronize();
  CHECK(catch_error([&] {
          world.synchronize();
          world.all_reduce(std::span<float>(values));
        }).code() == ErrorCode::usage);
}
