// SPDX-License-Identifier: Apache-2.0
// NCCL operations for which the program waits in CUDA itself, on fakes of CUDA and NCCL.
#include <atomic>
#include <functional>
#include <thread>

#include "communicator/nccl/gpu.hpp"
#include "runtime/communicator/contexts.hpp"
#include "runtime/fakes/fakes.hpp"

using namespace muster;
using namespace std::chrono_literals;

namespace {

using Program = std::function<void(int rank, Communicator& world)>;

// Creates each rank's NCCL world on a stream that never completes, runs `program` with it, and waits without
// a call of Muster until the job has failed. Returns the error that each rank then gets.
std::vector<std::optional<Error>> wait_in_cuda(ControlPlaneFixture& fixture,
                                               std::chrono::milliseconds timeout, const Program& program,
                                               const char* nccl = "") {
  return fixture.run_on_all([&](int rank, control::ControlPlane& plane) {
    auto const gpu = detail::open_gpu("", 0, "rank");
    Communicator world(gpu->world(
        detail::CommunicatorGroup(make_connected_context(fixture, rank, timeout), "world"), Deadline(10s)));
    plane.barrier("worlds", 10s);
    if (rank == 0) {
      setenv("FAKE_CUDA", "stream_busy", 1);
      setenv("FAKE_NCCL", nccl, 1);
    }
    plane.barrier("busy", 10s);
    program(rank, world);
    for (int i = 0; i < 1000 && !plane.failed(); ++i) std::this_thread::sleep_for(10ms);
    plane.check();
  });
}

void all_reduce(Communicator& world) {
  std::vector<float> values(10);
  world.all_reduce(std::span<float>(values));
}

}  // namespace

TEST_CASE("when a wait in CUDA never ends, the error at the deadline names the missing rank") {
  Fakes const fakes;
  ControlPlaneFixture fixture(2);
  auto const thrown = wait_in_cuda(fixture, 400ms, [](int rank, Communicator& world) {
    if (rank == 0) all_reduce(world);
  });
  REQUIRE((thrown[0] && thrown[1]));
  CHECK(thrown[0]->code() == ErrorCode::deadline);
  CHECK(has(thrown[0]->what(), "all_reduce (operation"));
  CHECK(has(thrown[0]->what(), "did not complete within 400 ms"));
  CHECK(has(thrown[0]->what(), "not entered by rank 1 (host h1"));
  CHECK(nccl_count("fake_nccl_live") == 0);
}

TEST_CASE("when a program synchronizes late, the deadline still counts from the enqueue") {
  Fakes const fakes;
  ControlPlaneFixture fixture(2);
  auto const timeout = 6s;
  auto const thrown = wait_in_cuda(fixture, timeout, [&](int rank, Communicator& world) {
    if (rank == 1) return;
    all_reduce(world);
    std::this_thread::sleep_for(timeout - 2s);
    auto const began = std::chrono::steady_clock::now();
    CHECK_THROWS_AS(world.synchronize(), Error);
    CHECK(std::chrono::steady_clock::now() - began < timeout);
  });
  REQUIRE((thrown[0] && thrown[1]));
  CHECK(has(thrown[0]->what(), "did not complete within 6 s"));
}

TEST_CASE("when ranks wait in CUDA in different operations, the stall diagnosis names both") {
  Fakes const fakes;
  ControlPlaneFixture fixture(2, 2, {}, 10s, 100ms);
  auto const thrown = wait_in_cuda(fixture, 60s, [](int rank, Communicator& world) {
    std::vector<float> values(10);
    if (rank == 0) return all_reduce(world);
    world.broadcast(std::span<float>(values), 0);
  });
  REQUIRE((thrown[0] && thrown[1]));
  CHECK(thrown[0]->code() == ErrorCode::usage);
  CHECK(has(thrown[0]->what(), "called broadcast"));
  CHECK(has(thrown[0]->what(), "called all_reduce"));
}

TEST_CASE("when NCCL reports an error while the program waits in CUDA, the job ends") {
  Fakes const fakes;
  ControlPlaneFixture fixture(2);
  auto const thrown = wait_in_cuda(
      fixture, 60s, [](int, Communicator& world) { all_reduce(world); }, "fail_later");
  REQUIRE((thrown[0] && thrown[1]));
  CHECK(thrown[0]->code() == ErrorCode::device);
  CHECK(has(thrown[0]->what(), "unhandled system error (socketStartConnect: no route to host)"));
}

TEST_CASE("when all operations are complete, no stall is reported, however long the program calls nothing") {
  Fakes const fakes;
  ControlPlaneFixture fixture(2, 2, {}, 10s, 50ms);
  auto const thrown = fixture.run_on_all([&](int rank, control::ControlPlane& plane) {
    auto const gpu = detail::open_gpu("", 0, "rank");
    Communicator world(gpu->world(
        detail::CommunicatorGroup(make_connected_context(fixture, rank, 100ms), "world"), Deadline(10s)));
    if (rank == 0) all_reduce(world);
    std::this_thread::sleep_for(500ms);
    plane.check();
  });
  CHECK_FALSE((thrown[0] || thrown[1]));
}

TEST_CASE("when a stream is being captured, it is not monitored, because a query would end the capture") {
  Fakes const fakes;
  ControlPlaneFixture fixture(2);
  auto const thrown = fixture.run_on_all([&](int rank, control::ControlPlane& plane) {
    auto const gpu = detail::open_gpu("", 0, "rank");
    Communicator world(gpu->world(
        detail::CommunicatorGroup(make_connected_context(fixture, rank, 100ms), "world"), Deadline(10s)));
    plane.barrier("worlds", 10s);
    if (rank == 0) setenv("FAKE_CUDA", "capturing", 1);
    plane.barrier("capturing", 10s);
    all_reduce(world);
    std::this_thread::sleep_for(300ms);
    plane.check();
  });
  CHECK_FALSE((thrown[0] || thrown[1]));
  CHECK(call_fake<int>(FAKE_CUDA_FILE, "fake_cuda_asked_in_capture") == 0);
}

TEST_CASE("when a program has an on_loss callback, its wait in CUDA returns after a loss") {
  Fakes const fakes;
  for (bool const has_callback : {true, false}) {
    ControlPlaneFixture fixture(3);
    std::atomic<int> calls{0};
    std::atomic<bool> done{false};
    if (has_callback) fixture.planes[0]->on_loss([&](const control::Failure&) { ++calls; }, 10s);
    int const aborted = nccl_count("fake_nccl_aborted");
    fixture.run_on_all([&](int rank, control::ControlPlane& plane) {
      auto const gpu = detail::open_gpu("", 0, "rank");
      Communicator world(gpu->world(
          detail::CommunicatorGroup(make_connected_context(fixture, rank, 60s), "world"), Deadline(10s)));
      plane.barrier("worlds", 10s);
      if (rank == 0) setenv("FAKE_CUDA", "stream_busy", 1);
      plane.barrier("busy", 10s);
      if (rank == 0) all_reduce(world);
      plane.barrier("waits", 10s);
      if (rank == 2) plane.abort_connections();
      if (rank != 0) {  // the aborts of these ranks are not counted
        for (int i = 0; i < 2000 && !done; ++i) std::this_thread::sleep_for(10ms);
        return;
      }
      auto const returned = [&] { return nccl_count("fake_nccl_aborted") > aborted; };
      for (int i = 0; i < (has_callback ? 1000 : 50) && !(plane.failed() && returned()); ++i)
        std::this_thread::sleep_for(10ms);
      CHECK(plane.failed());
      CHECK(returned() == has_callback);
      setenv("FAKE_CUDA", "", 1);
      auto const error = catch_error([&] { has_callback ? world.synchronize() : all_reduce(world); });
      CHECK(error.code() == ErrorCode::lost_rank);
      CHECK(calls == (has_callback ? 1 : 0));
      done = true;
    });
    setenv("FAKE_CUDA", "", 1);
  }
  CHECK(nccl_count("fake_nccl_live") == 0);
}
