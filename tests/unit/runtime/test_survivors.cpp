// SPDX-License-Identifier: Apache-2.0
// What is known of a rank that was lost, who is told of a stall, and how those that are left go on.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "catch.hpp"
#include "has.hpp"
#include "recovery/survivor_rendezvous.hpp"
#include "control_plane_fixture.hpp"
#include "transport/peer_process.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;

namespace {

// A process of this host that has made a call and then does `end`, as this one sees it.
struct Lost {
  template <typename End>
  explicit Lost(End end) : ours(io) {
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
    peer.emplace(ours, nullptr);
    CHECK(peer->hear({{"is", "last call"}, {"descriptor", descriptor}}));
    asio::write(ours, asio::buffer(&go, 1));
  }
  // When its side of the connection has closed, as a leader asks.
  DisconnectCause ending() {
    asio::error_code error;
    ours.read_some(asio::buffer(&go, 1), error);
    return peer->ending(error.message(), 0ms);
  }
  ~Lost() {
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

// Who is told in a reunion of `present` of four ranks, and what each got or threw.
struct RendezvousBootstrap {
  RendezvousBootstrap(std::vector<int> present, std::vector<int> running, std::set<int> ended,
          std::set<int> silent = {}) {
    std::vector<std::unique_ptr<SurvivorRendezvous>> gates;
    RecoveryConfig plan;
    plan.key = random_key();
    plan.ended = std::move(ended);
    plan.silent = std::move(silent);
    for (int r = 0; r < 4; ++r) {
      gates.push_back(std::make_unique<SurvivorRendezvous>());
      plan.names.push_back(fmt::format("rank {}", r));
      plan.addresses.push_back({"127.0.0.1"});
      plan.ports.push_back(gates.back()->port());
    }
    for (int r = 0; r < 4; ++r)
      if (std::find(running.begin(), running.end(), r) == running.end())
        gates[static_cast<std::size_t>(r)].reset();
    std::vector<std::thread> threads;
    words.resize(4);
    errors.resize(4);
    for (int const r : present) {
      threads.emplace_back([&, r, mine = plan]() mutable {
        auto const index = static_cast<std::size_t>(r);
        mine.rank = r;
        try {
          words[index] = gates[index]->run(mine, {static_cast<std::uint8_t>(10 + r)}, Deadline(4s));
        } catch (const Error& error) {
          errors[index] = error;
        }
      });
    }
    for (auto& thread : threads) thread.join();
  }
  std::vector<SurvivorRendezvous::Words> words;
  std::vector<std::optional<Error>> errors;
};

}  // namespace

TEST_CASE("of a process of this host it is known how it ended and what it did last") {
  SECTION("killed") {
    Lost lost([] { kill(getpid(), SIGKILL); });
    auto const ending = lost.ending();
    CHECK(ending.certain);
    CHECK(ending.text ==
          "was killed by signal 9 (Killed), while running, last call all_reduce (operation 7 on communicator "
          "'world')");
  }
  SECTION("ended by itself") {
    Lost lost([] { _exit(3); });
    CHECK(has(lost.ending().text, "ended with exit code 3 without leaving the job, while running"));
  }
  SECTION("stopped: nobody else would end it") {
    Lost lost([] { kill(getpid(), SIGSTOP); });
    int status = 0;
    REQUIRE(waitpid(lost.pid, &status, WUNTRACED) == lost.pid);
    auto const ending = lost.peer->ending("", 2000ms);
    CHECK(ending.certain);
    CHECK(has(ending.text, "is stopped, silent for 2 s, while running"));
    REQUIRE(waitpid(lost.pid, &status, 0) == lost.pid);
    CHECK(WIFSIGNALED(status));
  }
  SECTION("it runs") {
    Lost lost([] {});
    auto const ending = lost.peer->ending("End of file", 0ms);
    CHECK_FALSE(ending.certain);
    CHECK(has(ending.text, "broke its connection though it still runs (End of file)"));
    CHECK(has(lost.peer->ending("", 2000ms).text, "is silent for 2 s though it runs"));
  }
}

TEST_CASE("a last call is what was entered last, whatever was there before, and one line") {
  FlightRecorder call;
  call.enter("a name that is far longer than what follows it", "world/1.0", 12);
  call.enter("send", "w", 0);
  CHECK(call.text() == "while joining, last call send (on communicator 'w')");
  call.enter("barrier\n'x'", "", 0);
  CHECK(call.text() == "while joining, last call barrier?'x'");
  std::string const endless(5000, 'x');
  call.enter(endless.c_str(), endless.c_str(), 1);
  CHECK(call.text().size() < 300);
  FlightRecorder::Reader const nobody(ProcessHandle(getpid()), 0);  // standard input is no last call
  CHECK(nobody.text().empty());
}

TEST_CASE("who waits long is told of in one line, and ranks in different operations fail") {
  Star star(3);
  std::vector<std::shared_ptr<OperationState>> activities;
  for (auto& plane : star.planes) activities.push_back(plane->follow_activity("world"));
  for (std::size_t r = 0; r < 3; ++r) {
    for (int i = 0; i < 4; ++i) activities[r]->enter("broadcast");
    if (r == 1) continue;
    activities[r]->enter("all_reduce");
    activities[r]->inside = true;
  }
  star.on_each([](int rank, ControlPlane& plane) {
    if (rank != 1) plane.warn_stalled("world", {0, 1, 2}, 5, "all_reduce", 30s);
  });
  std::this_thread::sleep_for(300ms);
  CHECK_FALSE(star.planes[0]->failed());  // a warning ends nothing
  activities[1]->enter("barrier");
  auto const thrown = star.on_each([](int rank, ControlPlane& plane) {
    if (rank != 2) return plane.barrier("b", 10s);
    plane.warn_stalled("world", {0, 1, 2}, 5, "all_reduce", 60s);
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

TEST_CASE("an operation that fails on one rank says who is in another one") {
  Star star(2);
  std::vector<std::shared_ptr<OperationState>> activities;
  for (auto& plane : star.planes) activities.push_back(plane->follow_activity("world"));
  activities[0]->enter("all_reduce");
  activities[1]->enter("broadcast");
  auto const thrown = star.on_each([](int rank, ControlPlane& plane) {
    if (rank == 0) plane.broke_in("world", {0, 1}, 1, "all_reduce", ErrorCode::system, "message truncated");
    plane.barrier("b", 10s);  // rank 0 does not come here
  });
  REQUIRE(thrown[0]);
  CHECK(has(thrown[0]->what(), "called broadcast"));
  CHECK(thrown[0]->exit_code() == 64);
}

TEST_CASE("a program is called before it hears of a lost rank, once") {
  Star star(3);
  std::atomic<int> calls{0};
  std::atomic<int> wrong{0};  // Catch2 is for one thread
  for (int r : {0, 1}) {
    star.planes[static_cast<std::size_t>(r)]->on_loss(
        [&](const Failure& failure) {
          if (failure.lost != 2) ++wrong;
          ++calls;
        },
        10s);
  }
  auto const thrown = star.on_each([](int rank, ControlPlane& plane) {
    if (rank == 2) return plane.abandon();
    plane.barrier("epoch", 20s);
  });
  REQUIRE((thrown[0] && thrown[1]));
  CHECK(calls == 2);
  CHECK(wrong == 0);
  CHECK_THROWS_AS(star.planes[0]->check(), Error);
  CHECK(calls == 2);
}

TEST_CASE("those that are left come to the lowest of them") {
  SECTION("rank 0 among them") {
    RendezvousBootstrap const meeting({0, 1, 3}, {0, 1, 3}, {2});
    for (std::size_t r : {0u, 1u, 3u}) {
      INFO((meeting.errors[r] ? meeting.errors[r]->what() : ""));
      CHECK(meeting.words[r] == SurvivorRendezvous::Words{{0, {10}}, {1, {11}}, {3, {13}}});
    }
  }
  SECTION("rank 0 gone, and rank 1 with it, of which nobody knows yet") {
    RendezvousBootstrap const meeting({2, 3}, {2, 3}, {0});
    CHECK(meeting.words[2] == SurvivorRendezvous::Words{{2, {12}}, {3, {13}}});
    CHECK(meeting.words[3] == meeting.words[2]);
  }
  SECTION("cut off from the half with the lowest rank: they end") {
    RendezvousBootstrap const meeting({2, 3}, {2, 3}, {}, {0, 1});
    REQUIRE((meeting.errors[2] && meeting.errors[3]));
    CHECK(meeting.errors[2]->code() == ErrorCode::lost_rank);
    CHECK(has(meeting.errors[2]->what(), "2 of 4 ranks are left here, too few to go on"));
    CHECK(meeting.errors[2]->reported_elsewhere() != meeting.errors[3]->reported_elsewhere());
  }
  SECTION("cut off with the lowest rank: they go on") {
    RendezvousBootstrap const meeting({0, 1}, {0, 1}, {}, {2, 3});
    CHECK(meeting.words[1] == SurvivorRendezvous::Words{{0, {10}}, {1, {11}}});
  }
  SECTION("one that runs but does not come is waited for until the deadline") {
    RendezvousBootstrap const meeting({0, 1, 2}, {0, 1, 2, 3}, {});
    CHECK(meeting.words[2] == SurvivorRendezvous::Words{{0, {10}}, {1, {11}}, {2, {12}}});
  }
}
