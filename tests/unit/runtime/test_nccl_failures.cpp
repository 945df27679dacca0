// SPDX-License-Identifier: Apache-2.0
// How NCCL's communicators fail: errors, hanging, deadlines, on test doubles of CUDA and NCCL.
#include <cstdlib>
#include <thread>

#include "communicator/nccl/gpu.hpp"
#include "contexts.hpp"
#include "fakes.hpp"
#include "soon.hpp"

using namespace muster;
using namespace std::chrono_literals;

TEST_CASE("NCCL initialisation that hangs ends at the deadline, aborted, and says where") {
  Fakes const fakes("", "hang_init");
  int const aborted = count("fake_nccl_aborted");
  auto const gpu = detail::open_gpu("0000:3b:00.0", 0, "rank 0");
  auto const began = std::chrono::steady_clock::now();
  auto const error = error_of([&] { gpu->world(detail::CommunicatorGroup(context_alone(), "world"), Deadline(300ms)); });
  CHECK(std::chrono::steady_clock::now() - began < soon);
  CHECK(error.code() == ErrorCode::deadline);
  CHECK(has(error.what(), "NCCL initialisation on communicator 'world', rank 0 (host h0"));
  CHECK(has(error.what(), "300 ms"));
  CHECK(count("fake_nccl_aborted") == aborted + 1);
  CHECK(count("fake_nccl_live") == 0);
}

TEST_CASE("hanging initialisation on two ranks is one message, and a rank that did not come is named in it") {
  Fakes const fakes("", "hang_init");
  for (int ranks_that_init : {2, 1}) {
    Star star(2);
    auto const thrown = star.on_each([&](int rank, control::ControlPlane& plane) {
      if (rank >= ranks_that_init) {
        // Brings the id round to its end but never reaches NCCL.
        plane.broadcast("NCCL id of 'world'", {0, 1}, 0, {}, 10s);
        auto const activity = plane.follow_activity("world");
        std::this_thread::sleep_for(1500ms);
        return;
      }
      auto const gpu = detail::open_gpu("", 0, "rank");
      gpu->world(detail::CommunicatorGroup(context_of(star, rank, 300ms), "world"), Deadline(400ms));
    });
    REQUIRE(thrown[0]);
    CHECK(thrown[0]->code() == ErrorCode::deadline);
    CHECK(has(thrown[0]->what(),
              "NCCL initialisation (operation 1 on communicator 'world') was not done after 400 ms"));
    if (ranks_that_init == 2) {
      REQUIRE(thrown[1]);
      CHECK(thrown[0]->reported_elsewhere() != thrown[1]->reported_elsewhere());
      CHECK(has(thrown[0]->what(), "every rank entered it"));
    } else {
      CHECK(has(thrown[0]->what(), "not entered by rank 1 (host h1"));
    }
  }
  CHECK(count("fake_nccl_live") == 0);
}

TEST_CASE("ranks that share a GPU are named") {
  Fakes const fakes("", "shared_gpu");
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  for (bool const shared : {true, false}) {
    auto const context = context_among(3);
    context->roster[1].host = context->roster[2].host = context->roster[0].host;
    if (shared) context->roster[2].gpu = context->roster[0].gpu;
    auto const error = error_of([&] { gpu->world(detail::CommunicatorGroup(context, "world"), Deadline(10s)); });
    CHECK(error.code() == ErrorCode::device);
    CHECK(has(error.what(),
              "rank 0 (host h0, GPU 0000:00:00.0), rank 2 (host h0, GPU 0000:00:00.0) have one GPU") ==
          shared);
    CHECK(has(error.what(), "no route to host") != shared);  // NCCL's own detail
  }
}

TEST_CASE("NCCL's errors come with its own detail on one line") {
  {
    Fakes const fakes("", "fail_init");
    auto const gpu = detail::open_gpu("", 0, "rank 0");
    auto const error = error_of([&] { gpu->world(detail::CommunicatorGroup(context_alone(), "world"), Deadline(10s)); });
    CHECK(error.code() == ErrorCode::device);
    CHECK(has(error.what(), "unhandled system error (socketStartConnect: no route to host)"));
    CHECK_FALSE(has(error.what(), "\n"));
  }
  {
    Fakes const fakes;
    auto const gpu = detail::open_gpu("", 0, "rank 0");
    Communicator world(gpu->world(detail::CommunicatorGroup(context_alone(), "world"), Deadline(10s)));
    setenv("FAKE_NCCL", "fail_later", 1);
    setenv("FAKE_CUDA", "stream_busy", 1);
    auto const error = error_of([&] { world.synchronize(); });
    CHECK(has(error.what(), "unhandled system error"));
    std::vector<float> values(1);
    CHECK(error_of([&] { world.all_reduce(std::span<float>(values)); }).code() == ErrorCode::usage);
  }
  CHECK(count("fake_nccl_live") == 0);
}

TEST_CASE("a split that fails is an error, and NCCL may write to where its communicator was to go") {
  Fakes const fakes("", "fail_split");
  int const aborted = count("fake_nccl_aborted");
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  Communicator world(gpu->world(detail::CommunicatorGroup(context_alone(), "world"), Deadline(10s)));
  auto const error = error_of([&] { world.split(0); });
  CHECK(has(error.what(), "split on communicator 'world'"));
  CHECK(has(error.what(), "unhandled system error"));
  CHECK(count("fake_nccl_aborted") == aborted + 1);
  CHECK(count("fake_nccl_live") == 0);
}

TEST_CASE("those who are still in NCCL's initialisation are told from those who came out of it") {
  Fakes const fakes("", "hang_init");
  Star star(3);
  auto const thrown = star.on_each([&](int rank, control::ControlPlane& plane) {
    if (rank == 2) {  // came out of it
      plane.broadcast("NCCL id of 'world'", {0, 1, 2}, 0, {}, 10s);
      auto const activity = plane.follow_activity("world");
      activity->number = 1;
      activity->operation = "NCCL initialisation";
      std::this_thread::sleep_for(1500ms);
      return;
    }
    auto const gpu = detail::open_gpu("", 0, "rank");
    gpu->world(detail::CommunicatorGroup(context_of(star, rank, 300ms), "world"), Deadline(400ms));
  });
  REQUIRE((thrown[0] && thrown[1]));
  CHECK(thrown[0]->reported_elsewhere() != thrown[1]->reported_elsewhere());
  CHECK(has(thrown[0]->what(), "; still in it: rank 0 (host h0, GPU 0000:00:00.0), rank 1 (host h1"));
  CHECK_FALSE(has(thrown[0]->what(), "rank 2"));
}

TEST_CASE("a stream that never ends or breaks is noticed in synchronize") {
  Fakes const fakes;
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  {
    Communicator world(gpu->world(detail::CommunicatorGroup(context_alone(), "world"), Deadline(10s)));
    setenv("FAKE_CUDA", "stream_busy", 1);
    auto const error = error_of([&] { world.barrier(); });
    CHECK(error.code() == ErrorCode::deadline);
    CHECK(has(error.what(), "barrier on communicator 'world'"));
  }
  setenv("FAKE_CUDA", "", 1);
  {
    Communicator world(gpu->world(detail::CommunicatorGroup(context_alone(), "world"), Deadline(10s)));
    setenv("FAKE_CUDA", "stream_error", 1);
    CHECK(has(error_of([&] { world.synchronize(); }).what(), "illegal memory access"));
  }
  CHECK(count("fake_nccl_live") == 0);
}
