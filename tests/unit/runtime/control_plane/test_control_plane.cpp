// SPDX-License-Identifier: Apache-2.0
// Collective calls on the control plane, and the error when a rank is missing, ends or fails.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <future>

#include "catch.hpp"
#include "control_plane_fixture.hpp"
#include "has.hpp"
#include "job/rank_0_section.hpp"
#include "soon.hpp"
#include "thrown_errors.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;
using asio::ip::tcp;

// Until a deadline passes that must pass. Ranks that shall be there in time are, on a busy machine too.
constexpr auto short_wait = 3s;

TEST_CASE("gather, broadcast and barrier return every rank's data, repeatedly") {
  ControlPlaneFixture fixture(4);
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    std::vector<int> const everyone{0, 1, 2, 3};
    for (int i = 0; i < 50; ++i) {
      plane.barrier("b", 10s);
      auto const number = static_cast<std::uint8_t>(i);
      auto const all = plane.gather("g", everyone, {static_cast<std::uint8_t>(rank), number}, 10s);
      for (std::size_t r = 0; r < 4; ++r) {
        if (all.at(r) != Blob{static_cast<std::uint8_t>(r), number})
          throw Error(ErrorCode::system, "gather mixed up");
      }
      if (plane.broadcast("c", everyone, i % 4, {number, static_cast<std::uint8_t>(rank)}, 10s) !=
          Blob{number, static_cast<std::uint8_t>(i % 4)}) {
        throw Error(ErrorCode::system, "broadcast mixed up");
      }
    }
    // Two groups at the same time, each with its own order of members.
    std::vector<int> const mine = rank % 2 == 0 ? std::vector<int>{2, 0} : std::vector<int>{1, 3};
    auto const part =
        plane.gather(rank % 2 == 0 ? "even" : "odd", mine, {static_cast<std::uint8_t>(rank)}, 10s);
    if (part.at(0).at(0) != mine[0] || part.at(1).at(0) != mine[1])
      throw Error(ErrorCode::system, "group gather mixed up");
    Blob const large(1u << 20, 7);
    if (plane.broadcast("large", everyone, 3, large, 10s) != large)
      throw Error(ErrorCode::system, "large blob changed");
    plane.final_barrier("leave", 10s);
    plane.leave();
  });
  check_no_errors(thrown);
}

TEST_CASE("when a barrier's deadline passes, one rank reports the missing rank") {
  ControlPlaneFixture fixture(4);
  auto const began = std::chrono::steady_clock::now();
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank == 2) return;
    plane.barrier("epoch", short_wait);
  });
  CHECK(std::chrono::steady_clock::now() - began < soon);
  REQUIRE((thrown[0] && thrown[1] && thrown[3]));
  CHECK(count_reporters(thrown) == 1);
  CHECK(thrown[0]->code() == ErrorCode::deadline);
  CHECK(thrown[0]->exit_code() == 75);
  CHECK(has(thrown[0]->what(), "epoch: 1 of 4 ranks missing after 3 s: rank 2 (host h2, GPU 0000:02:00.0)"));
  CHECK_THROWS_AS(fixture.planes[2]->barrier("epoch", 1s), Error);  // the late rank gets the failure, too
}

TEST_CASE("when the missing ranks wait in another call, the error names the rank for which they wait") {
  ControlPlaneFixture fixture(4);
  auto const run = [&](const std::vector<int>& outer) {
    auto const thrown = fixture.run_on_all([&](int rank, ControlPlane& plane) {
      if (rank == 0) plane.gather("outer", outer, {}, short_wait);
      if (rank == 1 || rank == 2) plane.gather("inner", {1, 2, 3}, {}, 20s);
    });
    REQUIRE(thrown[0]);
    CHECK(thrown[0]->code() == ErrorCode::deadline);
    return std::string(thrown[0]->what());
  };
  SECTION("which is not in this call") {
    auto const text = run({0, 1, 2});
    INFO(text);
    CHECK(has(text, "outer: 2 of 3 ranks missing after 3 s: rank 1 "));
    CHECK(
        has(text,
            "; rank 1 (host h1, GPU 0000:01:00.0), rank 2 (host h2, GPU 0000:02:00.0) wait in inner for rank "
            "3 (host h3, GPU 0000:03:00.0); rank 3 is in no call of Muster's"));
  }
  SECTION("which is missing here, too") {
    auto const text = run({0, 1, 2, 3});
    INFO(text);
    CHECK(has(
        text,
        "; only rank 0 (host h0, GPU 0000:00:00.0) came; rank 3 is in no call of Muster's; ranks 1, 2 are "
        "in inner"));
  }
}

TEST_CASE("when ranks wait for each other in different calls, the error is one of usage") {
  constexpr const char* rule = ": all ranks must make the same calls in the same order";
  ThrownErrors thrown;
  SECTION("two calls") {
    thrown = ControlPlaneFixture(4).run_on_all([](int rank, ControlPlane& plane) {
      rank < 2 ? plane.barrier("a", short_wait) : plane.barrier("b", 20s);
    });
    REQUIRE(thrown[0]);
    CHECK(has(thrown[0]->what(), "a: 2 of 4 ranks missing after 3 s: rank 2 (host h2"));
    CHECK(has(thrown[0]->what(), " wait in b for rank 0 (host h0"));
  }
  SECTION("three calls") {
    thrown = ControlPlaneFixture(3).run_on_all([](int rank, ControlPlane& plane) {
      rank == 0 ? plane.barrier("a", short_wait) : plane.barrier(rank == 1 ? "b" : "c", 20s);
    });
    REQUIRE(thrown[0]);
    CHECK(has(thrown[0]->what(), "rank 1 is in b; rank 2 is in c"));
  }
  SECTION("an operation and a barrier") {
    ControlPlaneFixture fixture(2);
    auto const state = fixture.planes[0]->register_communicator("world");
    state->set_wait_group({0, 1}, nullptr, 0);
    state->number = 1;
    state->inside = true;
    thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
      if (rank == 1) return plane.barrier("epoch", 20s);
      std::this_thread::sleep_for(short_wait);
      plane.fail_operation({0, 1},
                           {.communicator = "world", .number = 1, .operation = "all_reduce", .waited = 3s});
    });
    REQUIRE(thrown[0]);
    CHECK(has(thrown[0]->what(), "rank 1 (host h1, GPU 0000:01:00.0) waits in epoch for rank 0 (host h0"));
  }
  INFO(thrown[0]->what());
  CHECK(thrown[0]->exit_code() == 64);
  CHECK(has(thrown[0]->what(), rule));
  CHECK(count_reporters(thrown) == 1);
}

TEST_CASE("a rank that leaves while others wait for it in a call ends the job at once") {
  ControlPlaneFixture fixture(4);
  bool const leaves_first = GENERATE(true, false);
  auto const began = std::chrono::steady_clock::now();
  auto const thrown = fixture.run_on_all([&](int rank, ControlPlane& plane) {
    if ((rank == 3) != leaves_first) std::this_thread::sleep_for(100ms);
    rank == 3 ? plane.final_barrier("leave", 20s) : plane.barrier("epoch", 20s);
  });
  CHECK(std::chrono::steady_clock::now() - began < soon);
  REQUIRE((thrown[0] && thrown[3]));
  CHECK(count_reporters(thrown) == 1);
  CHECK_FALSE(thrown[3]->reported_elsewhere());
  CHECK(thrown[0]->exit_code() == 64);
  CHECK(has(thrown[3]->what(), "rank 3 (host h3, GPU 0000:03:00.0) left the job while "));
  CHECK(has(thrown[3]->what(), " for it in epoch: all ranks must make the same calls"));
}

TEST_CASE("when rank 0 is missing, another rank reports it") {
  ControlPlaneFixture fixture(3);
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank != 0) plane.barrier("epoch", short_wait);
  });
  REQUIRE((thrown[1] && thrown[2]));
  CHECK(count_reporters(thrown) == 1);
  CHECK(has(thrown[1]->what(), "rank 0 (host h0"));
}

TEST_CASE("when ranks are missing, the error counts those that never connected") {
  ControlPlaneFixture fixture(4, 2);
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank == 0) plane.barrier("join", short_wait);
  });
  REQUIRE(thrown[0]);
  CHECK(has(thrown[0]->what(), "3 of 4 ranks missing"));
  CHECK(has(thrown[0]->what(), "of which 2 never connected"));
}

TEST_CASE("when a rank ends without leaving, every rank gets its name at once") {
  ControlPlaneFixture fixture(4);
  auto const began = std::chrono::steady_clock::now();
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank == 3) return plane.abort_connections();
    plane.barrier("epoch", 20s);
  });
  CHECK(std::chrono::steady_clock::now() - began < soon);
  REQUIRE((thrown[0] && thrown[1] && thrown[2]));
  CHECK(count_reporters(thrown) == 1);
  CHECK(thrown[1]->code() == ErrorCode::lost_rank);
  CHECK(has(thrown[1]->what(), "rank 3 (host h3, GPU 0000:03:00.0), pid 103, ended"));
}

TEST_CASE("a rank that reads slowly still gets the failure after the other rank has closed its connections") {
  ControlPlaneFixture fixture(2);
  std::promise<void> closed;
  fixture.planes[1]->register_handler(
      "busy", [done = closed.get_future().share()](const Blob&) -> std::optional<Blob> {
        done.wait();
        return Blob{};
      });
  // More than the buffers of a connection hold.
  for (int i = 0; i < 20; ++i) fixture.planes[0]->query_ranks({1}, "busy", Blob(2u << 20), 0ms);
  fixture.planes[0]->report_failure(ErrorCode::usage, "the last message");
  fixture.planes[0]->abort_connections();
  closed.set_value();
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank == 1) plane.barrier("epoch", 20s);
  });
  REQUIRE(thrown[1]);
  CHECK(thrown[1]->what() == std::string("the last message"));
}

TEST_CASE("when rank 0 ends, every rank names it and one reports it") {
  ControlPlaneFixture fixture(3);
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank == 0) return plane.abort_connections();
    plane.barrier("epoch", 20s);
  });
  REQUIRE((thrown[1] && thrown[2]));
  CHECK(count_reporters(thrown) == 1);
  CHECK(has(thrown[1]->what(), "rank 0 (host h0"));
}

TEST_CASE("when a process is killed, rank 0 names it") {
  struct Invitation {
    std::uint16_t port;
    Key key;
  };
  int invite[2];
  REQUIRE(pipe(invite) == 0);
  pid_t const child = fork();  // before this process has threads: the child starts its own
  if (child == 0) {
    Invitation invitation{};
    if (read(invite[0], &invitation, sizeof invitation) != sizeof invitation) _exit(1);
    auto const plane = ControlPlane::connect(1, {ControlPlaneFixture::make_roster(2), {}}, {"127.0.0.1"},
                                             invitation.port, invitation.key, Deadline(10s));
    plane->barrier("join", 10s);
    pause();
    _exit(0);
  }
  ControlPlaneFixture fixture(2, 1);
  Invitation const invitation{fixture.planes[0]->port(), fixture.key};
  REQUIRE(write(invite[1], &invitation, sizeof invitation) == sizeof invitation);
  fixture.planes[0]->barrier("join", 10s);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  try {
    fixture.planes[0]->barrier("epoch", 20s);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::lost_rank);
    CHECK(has(error.what(), "rank 1 (host h1"));
  }
  close(invite[0]);
  close(invite[1]);
}

TEST_CASE("when ranks make different calls under one name, all get a usage error") {
  ControlPlaneFixture fixture(3);
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    plane.broadcast("parameters", {0, 1, 2}, rank == 2 ? 1 : 0, {}, 5s);
  });
  REQUIRE((thrown[0] && thrown[1] && thrown[2]));
  CHECK(thrown[0]->code() == ErrorCode::usage);
  CHECK(count_reporters(thrown) == 1);
}

TEST_CASE("when an operation stalls, the error names the rank that has not entered it") {
  ControlPlaneFixture fixture(3);
  std::vector<std::shared_ptr<OperationState>> states;
  for (auto& plane : fixture.planes) states.push_back(plane->register_communicator("world"));
  for (int r = 0; r < 3; ++r) {
    states[static_cast<std::size_t>(r)]->number = r == 1 ? 4 : 5;
    states[static_cast<std::size_t>(r)]->operation = r == 1 ? "broadcast" : "all_reduce";
  }
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank != 1)
      plane.fail_operation({0, 1, 2},
                           {.communicator = "world", .number = 5, .operation = "all_reduce", .waited = 600s});
  });
  REQUIRE((thrown[0] && thrown[2]));
  CHECK(count_reporters(thrown) == 1);
  CHECK(thrown[0]->code() == ErrorCode::deadline);
  CHECK(has(thrown[0]->what(),
            "all_reduce (operation 5 on communicator 'world') did not complete within 600 s"));
  CHECK(has(thrown[0]->what(),
            "not entered by rank 1 (host h1, GPU 0000:01:00.0), whose last call there was broadcast"));
}

TEST_CASE("a wait in an operation ends when a rank that has not entered it has left") {
  ControlPlaneFixture fixture(3);
  std::vector<std::shared_ptr<OperationState>> states;
  for (auto& plane : fixture.planes) states.push_back(plane->register_communicator("world"));
  int const entered = GENERATE(4, 5);  // by the rank that leaves
  for (int r = 0; r < 3; ++r) {
    states[static_cast<std::size_t>(r)]->number = r == 1 ? entered : 5;
    states[static_cast<std::size_t>(r)]->inside = r == 0;
  }
  auto const thrown = fixture.run_on_all([&](int rank, ControlPlane& plane) {
    if (rank == 1) plane.final_barrier("leave", entered == 4 ? 60s : short_wait);
    // Until rank 0 knows that rank 1 leaves, which may take long on a busy machine.
    for (auto waited = 1s; rank == 0 && !plane.failed() && waited < 1200s; waited += 1s) {
      plane.report_operation({0, 1, 2}, {.communicator = "world",
                                         .number = 5,
                                         .operation = "all_reduce",
                                         .waited = waited,
                                         .warning = true,
                                         .silent = true});
      std::this_thread::sleep_for(50ms);
    }
  });
  REQUIRE(thrown[1]);
  INFO(thrown[1]->what());
  CHECK(has(thrown[1]->what(),
            "rank 1 (host h1, GPU 0000:01:00.0) left the job while rank 0 (host h0, GPU 0000:00:00.0) waits "
            "for it in all_reduce (operation 5 on communicator 'world')") == (entered == 4));
  CHECK(thrown[1]->code() == (entered == 4 ? ErrorCode::usage : ErrorCode::deadline));
}

TEST_CASE("when a point-to-point message stalls, the error does not compare operation numbers") {
  ControlPlaneFixture fixture(3);
  std::vector<std::shared_ptr<OperationState>> states;
  for (auto& plane : fixture.planes) states.push_back(plane->register_communicator("world"));
  for (auto& state : states) state->operation = "all_reduce";
  states[0]->number = 5;
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank == 0)
      plane.fail_operation(
          {0, 1, 2}, {.communicator = "world", .number = 0, .operation = "send with rank 1", .waited = 2s});
  });
  REQUIRE(thrown[0]);
  CHECK(has(thrown[0]->what(), "send with rank 1 (on communicator 'world') did not complete within 2 s"));
  CHECK_FALSE(has(thrown[0]->what(), "not entered by"));
  CHECK(has(thrown[0]->what(), "made no matching call"));
}

TEST_CASE("when rank 0's control thread throws, every rank gets the failure") {
  ControlPlaneFixture fixture(2);
  fixture.planes[0]->register_handler("throws", [](const RpcTable::Bytes&) -> std::optional<RpcTable::Bytes> {
    throw std::runtime_error("on purpose");
  });
  auto const began = std::chrono::steady_clock::now();
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank == 0) plane.query_ranks({0}, "throws", {}, 1s);
    plane.barrier("epoch", 20s);
  });
  CHECK(std::chrono::steady_clock::now() - began < soon);
  REQUIRE((thrown[0] && thrown[1]));
  CHECK(count_reporters(thrown) == 1);
  CHECK(thrown[1]->code() == ErrorCode::system);
  CHECK(has(thrown[1]->what(), "the control plane of rank 0 failed"));
}

TEST_CASE("run_bounded returns at the deadline, or at once when its caller cancels") {
  auto const forever = [] {
    std::this_thread::sleep_for(2 * soon);
    return 1;
  };
  auto const began = std::chrono::steady_clock::now();
  CHECK_FALSE(run_bounded(forever, Deadline(100ms)));
  CHECK_FALSE(run_bounded(forever, Deadline(100ms), [] { return false; }));
  CHECK_FALSE(run_bounded(forever, Deadline(2 * soon), [] { return true; }));
  CHECK(run_bounded([] { return 7; }, Deadline(20s), [] { return false; }) == 7);
  CHECK(std::chrono::steady_clock::now() - began < soon);
}

TEST_CASE("when nothing listens, connect() throws at the deadline with the reason") {
  std::uint16_t free_port = 0;
  {
    asio::io_context io;
    tcp::acceptor acceptor(io, tcp::endpoint(tcp::v4(), 0));
    free_port = acceptor.local_endpoint().port();
  }
  auto const began = std::chrono::steady_clock::now();
  try {
    ControlPlane::connect(1, {ControlPlaneFixture::make_roster(2), {}}, {"127.0.0.1"}, free_port,
                          random_key(), Deadline(300ms));
    FAIL("connected to nobody");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::deadline);
    CHECK(has(error.what(), "Connection refused"));
  }
  CHECK(std::chrono::steady_clock::now() - began < soon);
}

TEST_CASE("when a leader accepts but never replies, connect() throws at the deadline") {
  asio::io_context io;
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0));
  auto const began = std::chrono::steady_clock::now();
  CHECK_THROWS_AS(ControlPlane::connect(1, {ControlPlaneFixture::make_roster(2), {}}, {"127.0.0.1"},
                                        acceptor.local_endpoint().port(), random_key(), Deadline(400ms)),
                  Error);
  CHECK(std::chrono::steady_clock::now() - began < soon);
}
