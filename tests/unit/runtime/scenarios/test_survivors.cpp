// SPDX-License-Identifier: Apache-2.0
// Reports about a lost rank, stall warnings, and how the survivors continue.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "catch.hpp"
#include "flood.hpp"
#include "has.hpp"
#include "recovery/survivor_rendezvous.hpp"
#include "runtime/control_plane/control_plane_fixture.hpp"
#include "soon.hpp"
#include "transport/connect.hpp"
#include "transport/endpoint.hpp"
#include "transport/peer_process.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;

namespace {

// A child process that records a call and then runs `end`, as its peer sees it.
struct LostProcess {
  template <typename End>
  explicit LostProcess(End end) : ours(io) {
    int numbers[2];
    REQUIRE(pipe(numbers) == 0);
    asio::local::stream_protocol::endpoint const name(std::string("\0muster test ", 13) +
                                                      std::to_string(getpid()));
    asio::local::stream_protocol::acceptor acceptor(io, name);
    pid = fork();
    if (pid == 0) {
      FlightRecorder own;
      own.enter_phase("running");
      own.enter("all_reduce", "world", 7);
      int const its = own.descriptor();
      asio::io_context its_io;
      asio::local::stream_protocol::socket socket(its_io);
      socket.connect(name);
      if (write(numbers[1], &its, sizeof its) != sizeof its) _exit(9);
      asio::read(socket, asio::buffer(&go, 1));
      end();
      pause();
      _exit(8);
    }
    asio::local::stream_protocol::socket accepted(io);
    acceptor.accept(accepted);
    ours = Socket(std::move(accepted));
    REQUIRE(read(numbers[0], &descriptor, sizeof descriptor) == sizeof descriptor);
    close(numbers[0]);
    close(numbers[1]);
    peer.emplace(ours, std::make_shared<FlightRecorder>());
    CHECK(peer->handle_message(encode(protocol::FlightRecorderMemory{descriptor})));
    asio::write(ours, asio::buffer(&go, 1));
  }
  // Waits until its side of the connection closes, as a leader does.
  DisconnectCause disconnect_cause() {
    asio::error_code error;
    ours.read_some(asio::buffer(&go, 1), error);
    return peer->disconnect_cause(error.message(), 0ms);
  }
  ~LostProcess() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }

  asio::io_context io;
  Socket ours;
  std::optional<PeerProcess> peer;
  char go = 0;
  pid_t pid = 0;
  int descriptor = -1;
};

// Runs a recovery of the ranks `present`, of four. The acceptors of `running` exist. `before` gets rank 0's
// port. Result: each rank's payloads or error.
struct SurvivorRun {
  SurvivorRun(std::vector<int> present, std::vector<int> running, std::set<int> ended,
              std::set<int> silent = {}, std::chrono::milliseconds wait = 4s,
              const std::function<void(std::uint16_t)>& before = {}) {
    std::vector<std::unique_ptr<SurvivorRendezvous>> rendezvous;
    RecoveryConfig config;
    config.key = random_key();
    config.ended = std::move(ended);
    config.silent = std::move(silent);
    for (int r = 0; r < 4; ++r) {
      rendezvous.push_back(std::make_unique<SurvivorRendezvous>());
      config.names.push_back(fmt::format("rank {}", r));
      config.hosts.push_back(fmt::format("n{}", r));
      config.addresses.push_back({"127.0.0.1"});
      config.ports.push_back(rendezvous.back()->port());
    }
    for (int r = 0; r < 4; ++r)
      if (std::find(running.begin(), running.end(), r) == running.end())
        rendezvous[static_cast<std::size_t>(r)].reset();
    if (before) before(config.ports[0]);
    std::vector<std::thread> threads;
    payloads.resize(4);
    errors.resize(4);
    for (int const r : present) {
      threads.emplace_back([&, r, mine = config]() mutable {
        auto const index = static_cast<std::size_t>(r);
        mine.rank = r;
        try {
          payloads[index] = rendezvous[index]->run(mine, {static_cast<std::uint8_t>(10 + r)}, Deadline(wait));
        } catch (const Error& error) {
          errors[index] = error;
        }
      });
    }
    for (auto& thread : threads) thread.join();
  }
  std::vector<SurvivorRendezvous::Payloads> payloads;
  std::vector<std::optional<Error>> errors;
};

}  // namespace

TEST_CASE("a rank's port shows whether its process still runs") {
  auto rank = std::make_unique<SurvivorRendezvous>();
  auto const port = rank->port();
  auto const query = [port](const std::vector<std::string>& addresses) {
    return SurvivorRendezvous::find_states({parse_endpoints(addresses, port)}, 10s, 4).at(0);
  };
  CHECK(query({"not an address", "127.0.0.1"}) == ProcessState::running);
  rank.reset();
  CHECK(query({"127.0.0.1"}) == ProcessState::ended);
  CHECK(query({}) == ProcessState::unknown);
}

TEST_CASE("when a process of this host is lost, the cause and its last call are known") {
  SECTION("killed") {
    LostProcess lost([] { kill(getpid(), SIGKILL); });
    auto const cause = lost.disconnect_cause();
    CHECK(cause.confirmed_dead);
    CHECK(cause.text ==
          "was killed by signal 9 (Killed), while running, last call all_reduce (operation 7 on communicator "
          "'world')");
  }
  SECTION("ended by itself") {
    LostProcess lost([] { _exit(3); });
    CHECK(has(lost.disconnect_cause().text, "ended with exit code 3 without leaving the job, while running"));
  }
  SECTION("stopped: it is killed") {
    LostProcess lost([] { kill(getpid(), SIGSTOP); });
    int status = 0;
    REQUIRE(waitpid(lost.pid, &status, WUNTRACED) == lost.pid);
    auto const cause = lost.peer->disconnect_cause("", 2000ms);
    CHECK(cause.confirmed_dead);
    CHECK(has(cause.text, "is stopped, silent for 2 s, while running"));
    REQUIRE(waitpid(lost.pid, &status, 0) == lost.pid);
    CHECK(WIFSIGNALED(status));
  }
  SECTION("still running") {
    LostProcess lost([] {});
    auto const cause = lost.peer->disconnect_cause("End of file", 0ms);
    CHECK_FALSE(cause.confirmed_dead);
    CHECK(has(cause.text, "broke its connection though it still runs (End of file)"));
    CHECK(has(lost.peer->disconnect_cause("", 2000ms).text, "is silent for 2 s though it runs"));
  }
}

TEST_CASE("the flight recorder returns the last call as one line") {
  FlightRecorder recorder;
  recorder.enter("a name that is far longer than what follows it", "world/1.0", 12);
  recorder.enter("send", "w", 0);
  CHECK(recorder.text() == "while joining, last call send (on communicator 'w')");
  recorder.enter("barrier\n'x'", "", 0);
  CHECK(recorder.text() == "while joining, last call barrier?'x'");
  std::string const endless(5000, 'x');
  recorder.enter(endless.c_str(), endless.c_str(), 1);
  CHECK(recorder.text().size() < 300);
  FlightRecorder::Reader const nobody(ProcessHandle(getpid()), 0);  // standard input is no flight recorder
  CHECK(nobody.text().empty());
}

TEST_CASE("when ranks wait long a warning ends nothing, but different operations fail the job") {
  ControlPlaneFixture fixture(3);
  std::vector<std::shared_ptr<OperationState>> states;
  for (auto& plane : fixture.planes) states.push_back(plane->register_communicator("world"));
  for (std::size_t r = 0; r < 3; ++r) {
    for (int i = 0; i < 4; ++i) states[r]->enter("broadcast");
    if (r == 1) continue;
    states[r]->enter("all_reduce");
    states[r]->inside = true;
  }
  fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank != 1)
      plane.report_operation(
          {0, 1, 2},
          {.communicator = "world", .number = 5, .operation = "all_reduce", .waited = 30s, .warning = true});
  });
  std::this_thread::sleep_for(300ms);
  CHECK_FALSE(fixture.planes[0]->failed());  // a warning ends nothing
  states[1]->enter("barrier");
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank != 2) return plane.barrier("b", 10s);
    plane.report_operation(
        {0, 1, 2},
        {.communicator = "world", .number = 5, .operation = "all_reduce", .waited = 60s, .warning = true});
    for (int i = 0; i < 1000 && !plane.failed(); ++i) std::this_thread::sleep_for(10ms);
    plane.check();
  });
  REQUIRE((thrown[0] && thrown[1] && thrown[2]));
  CHECK(thrown[0]->code() == ErrorCode::usage);
  CHECK(has(
      thrown[0]->what(),
      "operation 5 on communicator 'world': rank 1 (host h1, GPU 0000:01:00.0) called barrier, but rank 0 "));
  CHECK(has(thrown[0]->what(), "called all_reduce: all ranks must make the same calls in the same order"));
}

TEST_CASE("when an operation fails on one rank, the error names the rank in another operation") {
  ControlPlaneFixture fixture(2);
  std::vector<std::shared_ptr<OperationState>> states;
  for (auto& plane : fixture.planes) states.push_back(plane->register_communicator("world"));
  states[0]->enter("all_reduce");
  states[1]->enter("broadcast");
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank == 0)
      plane.fail_operation({0, 1}, {.communicator = "world",
                                    .number = 1,
                                    .operation = "all_reduce",
                                    .code = ErrorCode::system,
                                    .reason = "message truncated"});
    plane.barrier("b", 10s);  // rank 0 does not reach this
  });
  REQUIRE(thrown[0]);
  CHECK(has(thrown[0]->what(), "called broadcast"));
  CHECK(thrown[0]->exit_code() == 64);
}

TEST_CASE("when a rank is lost, on_loss() runs once, before the error is thrown") {
  ControlPlaneFixture fixture(3);
  std::atomic<int> calls{0};
  std::atomic<int> wrong{0};  // Catch2 is for one thread
  for (int r : {0, 1}) {
    fixture.planes[static_cast<std::size_t>(r)]->on_loss(
        [&](const Failure& failure) {
          if (failure.lost != 2) ++wrong;
          ++calls;
        },
        10s);
  }
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    if (rank == 2) return plane.abort_connections();
    plane.barrier("epoch", 20s);
  });
  REQUIRE((thrown[0] && thrown[1]));
  CHECK(calls == 2);
  CHECK(wrong == 0);
  CHECK_THROWS_AS(fixture.planes[0]->check(), Error);
  CHECK(calls == 2);
}

TEST_CASE("after a loss, the survivors join the lowest of them") {
  SECTION("rank 0 survives") {
    SurvivorRun const outcome({0, 1, 3}, {0, 1, 3}, {2});
    for (std::size_t r : {0u, 1u, 3u}) {
      INFO((outcome.errors[r] ? outcome.errors[r]->what() : ""));
      CHECK(outcome.payloads[r] == SurvivorRendezvous::Payloads{{0, {10}}, {1, {11}}, {3, {13}}});
    }
  }
  SECTION("rank 0 ended, and rank 1 too, which is not known yet") {
    SurvivorRun const outcome({2, 3}, {2, 3}, {0});
    CHECK(outcome.payloads[2] == SurvivorRendezvous::Payloads{{2, {12}}, {3, {13}}});
    CHECK(outcome.payloads[3] == outcome.payloads[2]);
  }
  SECTION("half of the ranks, without the lowest: no quorum") {
    SurvivorRun const outcome({2, 3}, {2, 3}, {}, {0, 1});
    REQUIRE((outcome.errors[2] && outcome.errors[3]));
    CHECK(outcome.errors[2]->code() == ErrorCode::lost_rank);
    CHECK(has(outcome.errors[2]->what(), "2 of 4 ranks are left here, too few to go on"));
    CHECK(outcome.errors[2]->reported_elsewhere() != outcome.errors[3]->reported_elsewhere());
  }
  SECTION("half of the ranks, with the lowest: a quorum") {
    SurvivorRun const outcome({0, 1}, {0, 1}, {}, {2, 3});
    CHECK(outcome.payloads[1] == SurvivorRendezvous::Payloads{{0, {10}}, {1, {11}}});
  }
  SECTION("strangers flood the lowest survivor's port since before the loss") {
    std::optional<Flood> flood;
    SurvivorRun const outcome({0, 1, 3}, {0, 1, 3}, {2}, {}, soon, [&](std::uint16_t port) {
      auto const endpoint = tcp_endpoint(asio::ip::address_v4::loopback(), port);
      flood.emplace(endpoint.data(), endpoint.size(), "mustkey");
      while (flood->connections() < Flood::kept) std::this_thread::sleep_for(1ms);
    });
    for (std::size_t r : {0u, 1u, 3u}) CHECK(outcome.payloads[r].size() == 3);
  }
  SECTION("a rank that runs but does not join is awaited until the deadline") {
    SurvivorRun const outcome({0, 1, 2}, {0, 1, 2, 3}, {});
    CHECK(outcome.payloads[2] == SurvivorRendezvous::Payloads{{0, {10}}, {1, {11}}, {2, {12}}});
  }
}

TEST_CASE("a rank that ends before it is connected to the smaller job is noticed") {
  ControlPlaneOptions options{ControlPlaneFixture::make_roster(3), {}};
  options.watches_ended_ranks = true;
  int ended = 2;
  options.query_processes = [&ended](const std::vector<int>& ranks, std::chrono::milliseconds, int) {
    std::vector<ProcessState> states;
    for (int const rank : ranks)
      states.push_back(rank == ended ? ProcessState::ended : ProcessState::running);
    return states;
  };
  auto const past_test = 600s;
  SECTION("by rank 0, while it waits for the others") {
    auto const plane = ControlPlane::listen(random_key());
    plane->start_coordinator(options);
    CHECK_THROWS_AS(plane->barrier("join", past_test), Error);
    REQUIRE(plane->failure());
    CHECK(plane->failure()->code == ErrorCode::lost_rank);
    CHECK(plane->failure()->lost == 2);
    CHECK(plane->failure()->confirmed_dead);
  }
  SECTION("by a rank that connects to it") {
    ended = 0;
    auto const port = SurvivorRendezvous().port();
    std::optional<Failure> failure;
    try {
      ControlPlane::connect(1, options, {"127.0.0.1"}, port, random_key(), Deadline(past_test));
    } catch (const EndedRankError& error) {
      failure = error.failure;
    }
    REQUIRE(failure);
    CHECK(failure->lost == 0);
  }
}
