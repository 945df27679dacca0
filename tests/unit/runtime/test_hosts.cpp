// SPDX-License-Identifier: Apache-2.0
// The control plane over several simulated hosts: one leader each, in one process.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "catch.hpp"
#include "has.hpp"
#include "roster/roster.hpp"
#include "soon.hpp"
#include "control_plane_fixture.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;

namespace {

using Thrown = std::vector<std::optional<Error>>;

// Three hosts of three, two and one rank.
std::vector<int> const three_hosts{0, 0, 0, 3, 3, 5};

void check_one_speaker(const Thrown& thrown, const std::string& text) {
  int speakers = 0;
  for (const auto& error : thrown) {
    if (!error) continue;
    CHECK(has(error->what(), text));
    if (!error->reported_elsewhere()) ++speakers;
  }
  CHECK(speakers == 1);
}

// Connections that this process accepted on a port.
int connections_at(std::uint16_t port) {
  int count = 0;
  for (const char* file : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state;
      words >> number >> local >> remote >> state;
      if (state == "01" && has(local, fmt::format(":{:04X}", port))) ++count;
    }
  }
  return count;
}

// Whether they come to be so many; one that was given up may still be closing.
bool connections_become(std::uint16_t port, int count) {
  Deadline const deadline(20s);
  while (connections_at(port) != count) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

// Rank 1 of two in a process of its own, which meets and then waits.
struct Child {
  explicit Child(std::chrono::milliseconds heartbeat_timeout) {
    if (pipe(invite) != 0) throw std::runtime_error("no pipe");
    pid = fork();  // before this process has threads: the child starts its own
    if (pid != 0) return;
    std::pair<std::uint16_t, Key> given;
    if (read(invite[0], &given, sizeof given) != sizeof given) _exit(1);
    auto const plane = ControlPlane::follow(1, {Star::roster_of(2), {}, heartbeat_timeout}, {"127.0.0.1"},
                                     given.first, given.second, Deadline(10s));
    plane->barrier("join", 10s);
    pause();
    _exit(0);
  }
  ~Child() {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    close(invite[0]);
    close(invite[1]);
  }
  void join(Star& star) {
    std::pair<std::uint16_t, Key> const given{star.planes[0]->port(), star.key};
    REQUIRE(write(invite[1], &given, sizeof given) == sizeof given);
    star.planes[0]->barrier("join", 10s);
  }
  int invite[2]{};
  pid_t pid = 0;
};

}  // namespace

TEST_CASE("ranks of one host share a leader, and rank 0 holds one connection a host") {
  Star star(6, 6, three_hosts);
  CHECK(connections_become(star.planes[0]->port(), 2));
  auto const thrown = star.on_each([](int rank, ControlPlane& plane) {
    std::vector<int> const everyone{0, 1, 2, 3, 4, 5};
    for (int i = 0; i < 30; ++i) {
      plane.barrier("b", 10s);
      auto const number = static_cast<std::uint8_t>(i);
      auto const all = plane.gather("g", everyone, {static_cast<std::uint8_t>(rank), number}, 10s);
      for (std::size_t r = 0; r < 6; ++r)
        if (all.at(r) != Blob{static_cast<std::uint8_t>(r), number})
          throw Error(ErrorCode::system, "gather mixed up");
      if (plane.broadcast("c", everyone, i % 6, {number, static_cast<std::uint8_t>(rank)}, 10s) !=
          Blob{number, static_cast<std::uint8_t>(i % 6)})
        throw Error(ErrorCode::system, "broadcast mixed up");
    }
    std::vector<int> const mine = rank % 2 == 0 ? std::vector<int>{4, 0, 2} : std::vector<int>{1, 5, 3};
    auto const part =
        plane.gather(rank % 2 == 0 ? "even" : "odd", mine, {static_cast<std::uint8_t>(rank)}, 10s);
    for (std::size_t i = 0; i < 3; ++i)
      if (part.at(i).at(0) != mine[i]) throw Error(ErrorCode::system, "group gather mixed up");
    plane.last_barrier("leave", 10s);
    plane.leave();
  });
  for (const auto& error : thrown) {
    INFO((error ? error->what() : ""));
    CHECK_FALSE(error);
  }
}

TEST_CASE("whoever ends without leaving, a rank, a host's leader or rank 0, is named to all in one line") {
  for (int const lost : {1, 4, 3, 5, 0}) {
    INFO("rank " << lost);
    Star star(6, 6, three_hosts);
    auto const began = std::chrono::steady_clock::now();
    auto const thrown = star.on_each([&](int rank, ControlPlane& plane) {
      if (rank == lost) return plane.abandon();
      plane.barrier("epoch", 20s);
    });
    CHECK(std::chrono::steady_clock::now() - began < soon);
    for (int r = 0; r < 6; ++r) CHECK(thrown[static_cast<std::size_t>(r)].has_value() == (r != lost));
    check_one_speaker(thrown, fmt::format("rank {} (host h{}", lost, lost));
    check_one_speaker(thrown, "broke its connection");
  }
}

TEST_CASE("an error that every rank meets is said once, with the first one's text") {
  Star star(6, 6, three_hosts);
  auto const thrown = star.on_each([](int rank, ControlPlane& plane) {
    plane.give_up(ErrorCode::device, fmt::format("the GPU of rank {} failed", rank));
  });
  REQUIRE(thrown[0]);
  check_one_speaker(thrown, thrown[0]->what());
  for (const auto& error : thrown) CHECK(error->code() == ErrorCode::device);
}

TEST_CASE(
    "a rank that ends for a reason of its own is the one to say it, and the others hear of it every time") {
  for (int round = 0; round < 20; ++round) {
    Star star(6, 6, three_hosts);
    int const ends = round % 6;
    auto const thrown = star.on_each([&](int rank, ControlPlane& plane) {
      if (rank == ends) return plane.abandon_for_own_reason();
      plane.barrier("epoch", 20s);
    });
    for (int r = 0; r < 6; ++r) {
      if (r == ends) continue;
      auto const& error = thrown[static_cast<std::size_t>(r)];
      REQUIRE(error);
      INFO(error->what());
      bool const told = has(error->what(), "left the job for a reason of its own");
      // The ranks of a leader that ended know only that it did.
      CHECK((told || (ends == 3 && r == 4)));
      CHECK(error->reported_elsewhere());
    }
  }
}

TEST_CASE("the store keeps small values, tells of them when they come, and is bounded") {
  Star star(6, 6, three_hosts);
  auto const thrown = star.on_each([](int rank, ControlPlane& plane) {
    if (rank == 4) {
      std::this_thread::sleep_for(100ms);
      plane.put("late", {7, 8});
    }
    if (plane.get("late", 10s) != Blob{7, 8}) throw Error(ErrorCode::system, "another value");
    auto const began = std::chrono::steady_clock::now();
    if (plane.get("never", 200ms)) throw Error(ErrorCode::system, "a value from nowhere");
    if (std::chrono::steady_clock::now() - began > soon)
      throw Error(ErrorCode::system, "the deadline was not kept");
    plane.barrier("both", 10s);
    if (rank == 0) plane.put("late", {});
    plane.barrier("replaced", 10s);
    if (plane.get("late", 10s) != Blob{}) throw Error(ErrorCode::system, "the first value");
  });
  for (const auto& error : thrown) {
    INFO((error ? error->what() : ""));
    CHECK_FALSE(error);
  }
  CHECK_THROWS_AS(star.planes[1]->put("big", Blob(max_value_bytes + 1)), Error);
  CHECK_THROWS_AS(star.planes[1]->put(std::string(max_key_bytes + 1, 'k'), {}), Error);
  for (std::size_t i = 0; i <= max_store_bytes / max_value_bytes; ++i)
    star.planes[5]->put(fmt::format("{}", i), Blob(max_value_bytes));
  try {
    star.planes[5]->barrier("full", 60s);
    FAIL("the store has no end");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    CHECK(has(error.what(), "rank 5 (host h5"));
  }
}

TEST_CASE("ranks of one host, kernel and network have its lowest rank as leader") {
  std::vector<bootstrap::JoinRecord> records(5);
  for (int r = 0; r < 5; ++r) {
    records[static_cast<std::size_t>(r)].hello.rank = r;
    records[static_cast<std::size_t>(r)].hello.host = r % 2 == 0 ? "a" : "b";
  }
  CHECK(bootstrap::host_leaders(records) == std::vector<int>{0, 1, 0, 1, 0});
  records[4].network = "net:[2]";  // a UNIX socket does not reach it
  CHECK(bootstrap::host_leaders(records) == std::vector<int>{0, 1, 0, 1, 4});
}

TEST_CASE(
    "a process that is stopped is lost after the silence, and one that a whole stopped job has is not") {
  {
    Child child(400ms);
    Star star(2, 1, {}, 400ms);
    child.join(star);
    kill(child.pid, SIGSTOP);
    auto const began = std::chrono::steady_clock::now();
    try {
      star.planes[0]->barrier("epoch", 20s);
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::lost_rank);
      CHECK(has(error.what(), "rank 1 (host h1"));
      CHECK(has(error.what(), "silent for 400 ms"));
    }
    CHECK(std::chrono::steady_clock::now() - began < soon);
  }
  Child child(400ms);
  Star star(2, 1, {}, 400ms);
  child.join(star);
  pid_t const suspends = fork();
  if (suspends == 0) {
    for (pid_t const one : {getppid(), child.pid}) kill(one, SIGSTOP);
    usleep(1'000'000);
    for (pid_t const one : {child.pid, getppid()}) kill(one, SIGCONT);
    _exit(0);
  }
  waitpid(suspends, nullptr, 0);
  std::this_thread::sleep_for(600ms);
  CHECK_FALSE(star.planes[0]->failed());
}

TEST_CASE("a rank whose host's leader never comes leaves it to rank 0 to name the missing") {
  Star star(6, 1, three_hosts);
  try {
    star.follow(4, star.key, 200ms);
    FAIL("connected to nobody");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::deadline);
    CHECK(error.reported_elsewhere());
  }
}

TEST_CASE("a process that a rank starts keeps no connection of the rank's open") {
  Star star(6, 6, three_hosts);
  int sockets = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (!std::filesystem::read_symlink(entry.path(), gone).string().starts_with("socket:")) continue;
    int const flags = fcntl(std::stoi(entry.path().filename().string()), F_GETFD);
    if (flags < 0) continue;
    ++sockets;
    CHECK((flags & FD_CLOEXEC) != 0);
  }
  CHECK(sockets >= 10);  // both ends of each rank's connection, at least
}
