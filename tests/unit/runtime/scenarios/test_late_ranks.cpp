// SPDX-License-Identifier: Apache-2.0
// Errors about late ranks and about a stopped rank 0.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "catch.hpp"
#include "has.hpp"
#include "runtime/control_plane/control_plane_fixture.hpp"
#include "runtime/control_plane/thrown_errors.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;

TEST_CASE("when rank 0 is stopped, one other rank reports it, however short the waits are") {
  struct Invitation {
    std::uint16_t port;
    Key key;
  };
  int invite[2];
  REQUIRE(pipe(invite) == 0);
  ControlPlaneOptions options{ControlPlaneFixture::make_roster(4), {}, 6s};
  pid_t const child = fork();  // before this process has threads: the child starts its own
  if (child == 0) {
    Invitation invitation{0, random_key()};
    auto const plane = ControlPlane::listen(invitation.key);
    invitation.port = plane->port();
    if (write(invite[1], &invitation, sizeof invitation) != sizeof invitation) _exit(1);
    plane->start_coordinator(options);
    plane->barrier("join", 10s);
    pause();
    _exit(0);
  }
  Invitation invitation{};
  REQUIRE(read(invite[0], &invitation, sizeof invitation) == sizeof invitation);
  std::vector<std::shared_ptr<ControlPlane>> planes;
  for (int r = 1; r < 4; ++r)
    planes.push_back(
        ControlPlane::connect(r, options, {"127.0.0.1"}, invitation.port, invitation.key, Deadline(10s)));
  std::vector<std::optional<Error>> thrown(3);
  std::vector<std::thread> threads;
  std::atomic<int> joined{0};
  for (std::size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      try {
        planes[i]->barrier("join", 10s);
        if (++joined == 3) kill(child, SIGSTOP);
        while (joined < 3) std::this_thread::yield();
        if (i == 0) planes[i]->get("nobody puts this", 200ms);
        planes[i]->barrier("epoch", 200ms);
      } catch (const Error& error) {
        thrown[i] = error;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  REQUIRE((thrown[0] && thrown[1] && thrown[2]));
  CHECK(count_reporters(thrown) == 1);
  CHECK(thrown[0]->code() == ErrorCode::lost_rank);
  CHECK(has(thrown[0]->what(), "rank 0 (host h0"));
  CHECK(has(thrown[0]->what(), "silent for 6 s"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(invite[0]);
  close(invite[1]);
}

TEST_CASE("when ranks are late, the error names their current calls") {
  ControlPlaneFixture fixture(4);
  auto const state = fixture.planes[2]->register_communicator("");
  state->operation = "MPI_Init";
  state->number = 1;
  state->inside = true;
  auto const other = fixture.planes[3]->register_communicator("world");
  other->operation = "all_reduce";
  other->number = 7;
  other->inside = true;
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank == 0) plane.barrier("epoch", 300ms);
  });
  REQUIRE(thrown[0]);
  CHECK(has(thrown[0]->what(), "epoch: 3 of 4 ranks missing after 300 ms: "));
  CHECK(has(thrown[0]->what(), "; rank 1 is in no call of Muster's"));
  CHECK(has(thrown[0]->what(), "; rank 2 is in MPI_Init"));
  CHECK(has(thrown[0]->what(), "; rank 3 is in all_reduce (operation 7 on communicator 'world')"));
}
