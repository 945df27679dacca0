// SPDX-License-Identifier: Apache-2.0
// How NCCL communicators fail: errors, hangs and deadlines, on fakes of CUDA and NCCL.
#include <cstdlib>
#include <thread>

#include "communicator/nccl/gpu.hpp"
#include "runtime/communicator/contexts.hpp"
#include "runtime/fakes/fakes.hpp"
#include "soon.hpp"

using namespace muster;
using namespace std::chrono_literals;

namespace {

void wait_for_failure(control::ControlPlane& plane) {
  Deadline const limit(20s);
  while (!plane.failed() && !limit.passed()) std::this_thread::sleep_for(1ms);
}

}  // namespace

TEST_CASE("when NCCL initialisation hangs, it is aborted at the deadline, and the error says where") {
  Fakes const fakes("", "hang_init");
  int const aborted = nccl_count("fake_nccl_aborted");
  auto const gpu = detail::open_gpu("0000:3b:00.0", 0, "rank 0");
  auto const began = std::chrono::steady_clock::now();
  auto const error = catch_error(
      [&] { gpu->world(detail::CommunicatorGroup(make_single_rank_context(), "world"), Deadline(300ms)); });
  CHECK(std::chrono::steady_clock::now() - began < soon);
  CHECK(error.code() == ErrorCode::deadline);
  CHECK(has(error.what(), "NCCL initialisation on communicator 'world', rank 0 (host h0"));
  CHECK(has(error.what(), "300 ms"));
  CHECK(nccl_count("fake_nccl_aborted") == aborted + 1);
  CHECK(nccl_count("fake_nccl_live") == 0);
}

TEST_CASE("when initialisation hangs, one rank prints the message, and it names a missing rank") {
  Fakes const fakes("", "hang_init");
  for (int ranks_that_init : {2, 1}) {
    ControlPlaneFixture fixture(2);
    auto const thrown = fixture.run_on_all([&](int rank, control::ControlPlane& plane) {
      if (rank >= ranks_that_init) {
        // Takes part in the exchange of the id, but never calls NCCL.
        plane.broadcast("NCCL id of 'world'", {0, 1}, 0, {}, 10s);
        auto const activity = plane.register_communicator("world");
        return wait_for_failure(plane);
      }
      auto const gpu = detail::open_gpu("", 0, "rank");
      gpu->world(detail::CommunicatorGroup(make_connected_context(fixture, rank, 300ms), "world"),
                 Deadline(2s));
    });
    REQUIRE(thrown[0]);
    CHECK(thrown[0]->code() == ErrorCode::deadline);
    CHECK(has(thrown[0]->what(),
              "NCCL initialisation (operation 1 on communicator 'world') did not complete within 2 s"));
    if (ranks_that_init == 2) {
      REQUIRE(thrown[1]);
      CHECK(thrown[0]->reported_elsewhere() != thrown[1]->reported_elsewhere());
      CHECK(has(thrown[0]->what(), "every rank entered it"));
    } else {
      CHECK(has(thrown[0]->what(), "not entered by rank 1 (host h1"));
    }
  }
  CHECK(nccl_count("fake_nccl_live") == 0);
}

TEST_CASE("when ranks share a GPU, the error names them") {
  Fakes const fakes("", "shared_gpu");
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  for (bool const shared : {true, false}) {
    auto const context = make_context(3);
    context->roster[1].host = context->roster[2].host = context->roster[0].host;
    if (shared) context->roster[2].gpu = context->roster[0].gpu;
    auto const error =
        catch_error([&] { gpu->world(detail::CommunicatorGroup(context, "world"), Deadline(10s)); });
    CHECK(error.code() == ErrorCode::device);
    CHECK(has(error.what(),
              "rank 0 (host h0, GPU 0000:00:00.0), rank 2 (host h0, GPU 0000:00:00.0) share one GPU") ==
          shared);
    CHECK(has(error.what(), "no route to host") != shared);  // NCCL's own detail
  }
}

TEST_CASE("NCCL's errors contain its own detail, on one line") {
  {
    Fakes const fakes("", "fail_init");
    auto const gpu = detail::open_gpu("", 0, "rank 0");
    auto const error = catch_error(
        [&] { gpu->world(detail::CommunicatorGroup(make_single_rank_context(), "world"), Deadline(10s)); });
    CHECK(error.code() == ErrorCode::device);
    CHECK(has(error.what(), "unhandled system error (socketStartConnect: no route to host)"));
    CHECK_FALSE(has(error.what(), "\n"));
  }
  {
    Fakes const fakes;
    auto const gpu = detail::open_gpu("", 0, "rank 0");
    Communicator world(
        gpu->world(detail::CommunicatorGroup(make_single_rank_context(), "world"), Deadline(10s)));
    setenv("FAKE_NCCL", "fail_later", 1);
    setenv("FAKE_CUDA", "stream_busy", 1);
    auto const error = catch_error([&] { world.synchronize(); });
    CHECK(has(error.what(), "unhandled system error"));
    std::vector<float> values(1);
    CHECK(catch_error([&] { world.all_reduce(std::span<float>(values)); }).code() == ErrorCode::usage);
  }
  CHECK(nccl_count("fake_nccl_live") == 0);
}

TEST_CASE("when a split fails, it throws, and NCCL may still write to the new communicator's slot") {
  Fakes const fakes("", "fail_split");
  int const aborted = nccl_count("fake_nccl_aborted");
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  Communicator world(
      gpu->world(detail::CommunicatorGroup(make_single_rank_context(), "world"), Deadline(10s)));
  auto const error = catch_error([&] { world.split(0); });
  CHECK(has(error.what(), "split on communicator 'world'"));
  CHECK(has(error.what(), "unhandled system error"));
  CHECK(nccl_count("fake_nccl_aborted") == aborted + 1);
  CHECK(nccl_count("fake_nccl_live") == 0);
}

TEST_CASE("when initialisation hangs, the error names only the ranks that are still in it") {
  Fakes const fakes("", "hang_init");
  ControlPlaneFixture fixture(3);
  auto const thrown = fixture.run_on_all([&](int rank, control::ControlPlane& plane) {
    if (rank == 2) {  // has left NCCL's initialisation
      plane.broadcast("NCCL id of 'world'", {0, 1, 2}, 0, {}, 10s);
      auto const activity = plane.register_communicator("world");
      activity->enter("NCCL initialisation");
      return wait_for_failure(plane);
    }
    auto const gpu = detail::open_gpu("", 0, "rank");
    gpu->world(detail::CommunicatorGroup(make_connected_context(fixture, rank, 300ms), "world"),
               Deadline(2s));
  });
  REQUIRE((thrown[0] && thrown[1]));
  CHECK(thrown[0]->reported_elsewhere() != thrown[1]->reported_elsewhere());
  CHECK(has(thrown[0]->what(), "; still in it: rank 0 (host h0, GPU 0000:00:00.0), rank 1 (host h1"));
  CHECK_FALSE(has(thrown[0]->what(), "rank 2"));
}

TEST_CASE("when a stream never completes or fails, synchronize throws") {
  Fakes const fakes;
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  {
    Communicator world(
        gpu->world(detail::CommunicatorGroup(make_single_rank_context(), "world"), Deadline(10s)));
    setenv("FAKE_CUDA", "stream_busy", 1);
    auto const error = catch_error([&] { world.barrier(); });
    CHECK(error.code() == ErrorCode::deadline);
    CHECK(has(error.what(), "barrier on communicator 'world'"));
  }
  setenv("FAKE_CUDA", "", 1);
  {
    Communicator world(
        gpu->world(detail::CommunicatorGroup(make_single_rank_context(), "world"), Deadline(10s)));
    setenv("FAKE_CUDA", "stream_error", 1);
    CHECK(has(catch_error([&] { world.synchronize(); }).what(), "illegal memory access"));
  }
  CHECK(nccl_count("fake_nccl_live") == 0);
}
