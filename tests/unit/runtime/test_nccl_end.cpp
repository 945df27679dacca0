// SPDX-License-Identifier: Apache-2.0
// How NCCL's communicators end, together, and what a smaller world leaves of them, on test doubles of CUDA
// and NCCL.
#include <cstdlib>

#include "communicator/nccl/gpu.hpp"
#include "contexts.hpp"
#include "fakes.hpp"

using namespace muster;
using namespace std::chrono_literals;

TEST_CASE("communicators are aborted together, not one after another") {
  Fakes const fakes("", "slow_abort");
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  Communicator world(gpu->world(detail::CommunicatorGroup(context_alone(), "world"), Deadline(10s)));
  auto a = world.split(0);
  auto b = world.split(0);
  CHECK(count("fake_nccl_live") == 3);
  gpu->abandon();
  CHECK(count("fake_nccl_most_aborting") == 3);
  CHECK(count("fake_nccl_live") == 0);  // waited for
}

TEST_CASE("of a job that has failed the first communicator that its program drops takes the others with it") {
  Fakes const fakes("", "slow_abort");
  Star star(2);
  star.on_each([&](int rank, control::ControlPlane& plane) {
    auto const gpu = detail::open_gpu("", 0, "rank");
    std::vector<Communicator> made;
    made.emplace_back(gpu->world(detail::CommunicatorGroup(context_of(star, rank, 10s), "world"), Deadline(10s)));
    for (int i = 0; i < 3; ++i) made.push_back(made.front().split(0));
    if (rank == 1) made.clear();  // in order
    plane.barrier("made", 10s);
    if (rank == 1) return plane.abandon();
    // Told by the control plane, not by NCCL's call.
    CHECK(error_of([&] { plane.barrier("met", 10s); }).code() == ErrorCode::lost_rank);
    made.pop_back();
    CHECK(count("fake_nccl_most_aborting") == 4);
    CHECK(count("fake_nccl_live") == 0);  // waited for
  });
}

TEST_CASE("leaving ends the communicators together, not one after another") {
  Fakes const fakes("", "slow_destroy");
  int const aborted = count("fake_nccl_aborted");
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  Communicator world(gpu->world(detail::CommunicatorGroup(context_alone(), "world"), Deadline(10s)));
  auto a = world.split(0);
  auto b = world.split(0);
  gpu->finish(Deadline(5s));
  CHECK(count("fake_nccl_most_destroying") == 3);
  CHECK(count("fake_nccl_live") == 0);  // waited for
  CHECK(count("fake_nccl_aborted") == aborted);
}

TEST_CASE("a job that goes on without a rank keeps its communicators until the world has shrunk") {
  Fakes const fakes;
  int const aborted = count("fake_nccl_aborted");
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  gpu->survive();
  CHECK_FALSE(gpu->can_shrink());
  auto const job = context_alone();
  Communicator world(gpu->world(detail::CommunicatorGroup(job, "world"), Deadline(10s)));
  auto const part = world.split(0);
  setenv("FAKE_CUDA", "stream_busy", 1);
  error_of([&] { world.synchronize(); });
  setenv("FAKE_CUDA", "", 1);
  CHECK(count("fake_nccl_aborted") == aborted);
  CHECK(gpu->can_shrink());
  Communicator smaller(gpu->shrink_world(detail::CommunicatorGroup(job, "world"), {1}, Deadline(10s)));
  CHECK(count("fake_nccl_aborted") == aborted + 2);
  CHECK(count("fake_nccl_live") == 1);
  std::vector<float> values{1, 2};
  smaller.all_reduce(std::span<float>(values));
  smaller.synchronize();
  CHECK(error_of([&] {
          world.synchronize();
          world.all_reduce(std::span<float>(values));
        }).code() == ErrorCode::usage);
  gpu->end_all();
  CHECK(count("fake_nccl_live") == 0);
}

TEST_CASE("a world whose shrinking failed is not shrunk again: the next one is new") {
  Fakes const fakes;
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  gpu->survive();
  auto const job = context_alone();
  Communicator world(gpu->world(detail::CommunicatorGroup(job, "world"), Deadline(10s)));
  auto const part = world.split(0);
  setenv("FAKE_NCCL", "fail_split", 1);  // a shrinking is one in the double
  CHECK(has(error_of([&] { gpu->shrink_world(detail::CommunicatorGroup(job, "world"), {1}, Deadline(10s)); }).what(),
            "NCCL shrinking on communicator 'world'"));
  setenv("FAKE_NCCL", "", 1);
  CHECK_FALSE(gpu->can_shrink());
  CHECK(count("fake_nccl_live") == 0);  // the program holds the old ones still
  gpu->end_all();
  Communicator next(gpu->world(detail::CommunicatorGroup(job, "world"), Deadline(10s)));
  CHECK(gpu->can_shrink());
  next.barrier();
}
