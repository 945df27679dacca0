// SPDX-License-Identifier: Apache-2.0
// What becomes of NCCL operations whose program waits for them in CUDA itself, on test doubles of CUDA and
// NCCL.
#include <atomic>
#include <functional>
#include <thread>

#include "communicator/nccl/gpu.hpp"
#include "contexts.hpp"
#include "fakes.hpp"

using namespace muster;
using namespace std::chrono_literals;

namespace {

using Program = std::function<void(int rank, Communicator& world)>;

// Each rank's NCCL world on a stream that never ends from here on, and `program` on it, which then waits
// without a call of Muster until the job has failed; what the program is told when it comes back.
std::vector<std::optional<Error>> wait_in_cuda(Star& star, std::chrono::milliseconds timeout,
                                               const Program& program, const char* nccl = "") {
  return star.on_each([&](int rank, control::ControlPlane& plane) {
    auto const gpu = detail::open_gpu("", 0, "rank");
    Communicator world(gpu->world(detail::CommunicatorGroup(context_of(star, rank, timeout), "world"), Deadline(10s)));
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

TEST_CASE("a program that waits in CUDA for what does not end is told at the deadline who is missing") {
  Fakes const fakes;
  Star star(2);
  auto const thrown = wait_in_cuda(star, 400ms, [](int rank, Communicator& world) {
    if (rank == 0) all_reduce(world);
  });
  REQUIRE((thrown[0] && thrown[1]));
  CHECK(thrown[0]->code() == ErrorCode::deadline);
  CHECK(has(thrown[0]->what(), "all_reduce (operation"));
  CHECK(has(thrown[0]->what(), "was not done after 400 ms"));
  CHECK(has(thrown[0]->what(), "not entered by rank 1 (host h1"));
  CHECK(count("fake_nccl_live") == 0);
}

TEST_CASE("the stall inspector sees ranks that wait in CUDA in different operations") {
  Fakes const fakes;
  Star star(2, 2, {}, 10s, 100ms);
  auto const thrown = wait_in_cuda(star, 60s, [](int rank, Communicator& world) {
    std::vector<float> values(10);
    if (rank == 0) return all_reduce(world);
    world.broadcast(std::span<float>(values), 0);
  });
  REQUIRE((thrown[0] && thrown[1]));
  CHECK(thrown[0]->code() == ErrorCode::usage);
  CHECK(has(thrown[0]->what(), "called broadcast"));
  CHECK(has(thrown[0]->what(), "called all_reduce"));
}

TEST_CASE("what NCCL reports while the program waits in CUDA ends the job") {
  Fakes const fakes;
  Star star(2);
  auto const thrown = wait_in_cuda(
      star, 60s, [](int, Communicator& world) { all_reduce(world); }, "fail_later");
  REQUIRE((thrown[0] && thrown[1]));
  CHECK(thrown[0]->code() == ErrorCode::device);
  CHECK(has(thrown[0]->what(), "unhandled system error (socketStartConnect: no route to host)"));
}

TEST_CASE("operations that have ended are nobody's stall, however long the program calls nothing") {
  Fakes const fakes;
  Star star(2, 2, {}, 10s, 50ms);
  auto const thrown = star.on_each([&](int rank, control::ControlPlane& plane) {
    auto const gpu = detail::open_gpu("", 0, "rank");
    Communicator world(gpu->world(detail::CommunicatorGroup(context_of(star, rank, 100ms), "world"), Deadline(10s)));
    if (rank == 0) all_reduce(world);
    std::this_thread::sleep_for(500ms);
    plane.check();
  });
  CHECK_FALSE((thrown[0] || thrown[1]));
}

TEST_CASE("a capture is left alone: what is captured runs later, and asking would end it") {
  Fakes const fakes;
  Star star(2);
  auto const thrown = star.on_each([&](int rank, control::ControlPlane& plane) {
    auto const gpu = detail::open_gpu("", 0, "rank");
    Communicator world(gpu->world(detail::CommunicatorGroup(context_of(star, rank, 100ms), "world"), Deadline(10s)));
    plane.barrier("worlds", 10s);
    if (rank == 0) setenv("FAKE_CUDA", "capturing", 1);
    plane.barrier("capturing", 10s);
    all_reduce(world);
    std::this_thread::sleep_for(300ms);
    plane.check();
  });
  CHECK_FALSE((thrown[0] || thrown[1]));
  CHECK(ask<int>(FAKE_CUDA_FILE, "fake_cuda_asked_in_capture") == 0);
}

TEST_CASE("a program that wants to hear of a loss comes back from its wait in CUDA") {
  Fakes const fakes;
  for (bool const wants : {true, false}) {
    Star star(3);
    std::atomic<int> calls{0};
    std::atomic<bool> done{false};
    if (wants) star.planes[0]->on_loss([&](const control::Failure&) { ++calls; }, 10s);
    int const aborted = count("fake_nccl_aborted");
    star.on_each([&](int rank, control::ControlPlane& plane) {
      auto const gpu = detail::open_gpu("", 0, "rank");
      Communicator world(gpu->world(detail::CommunicatorGroup(context_of(star, rank, 60s), "world"), Deadline(10s)));
      plane.barrier("worlds", 10s);
      if (rank == 0) setenv("FAKE_CUDA", "stream_busy", 1);
      plane.barrier("busy", 10s);
      if (rank == 0) all_reduce(world);
      plane.barrier("waits", 10s);
      if (rank == 2) plane.abandon();
      if (rank != 0) {  // what they abort does not count
        for (int i = 0; i < 2000 && !done; ++i) std::this_thread::sleep_for(10ms);
        return;
      }
      auto const comes_back = [&] { return count("fake_nccl_aborted") > aborted; };
      for (int i = 0; i < (wants ? 1000 : 50) && !(plane.failed() && comes_back()); ++i)
        std::this_thread::sleep_for(10ms);
      CHECK(plane.failed());
      CHECK(comes_back() == wants);
      setenv("FAKE_CUDA", "", 1);
      auto const error = error_of([&] { wants ? world.synchronize() : all_reduce(world); });
      CHECK(error.code() == ErrorCode::lost_rank);
      CHECK(calls == (wants ? 1 : 0));
      done = true;
    });
    setenv("FAKE_CUDA", "", 1);
  }
  CHECK(count("fake_nccl_live") == 0);
}
