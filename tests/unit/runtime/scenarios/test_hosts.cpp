// SPDX-License-Identifier: Apache-2.0
// The control plane over several simulated hosts in one process, each with a leader.
#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "catch.hpp"
#include "has.hpp"
#include "roster/roster.hpp"
#include "runtime/control_plane/control_plane_fixture.hpp"
#include "runtime/control_plane/thrown_errors.hpp"
#include "soon.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;

namespace {

using Thrown = std::vector<std::optional<Error>>;

// Three hosts of three, two and one rank.
std::vector<int> const three_hosts{0, 0, 0, 3, 3, 5};

void check_one_reporter(const Thrown& thrown, const std::string& text) {
  int reporters = 0;
  for (const auto& error : thrown) {
    if (!error) continue;
    CHECK(has(error->what(), text));
    if (!error->reported_elsewhere()) ++reporters;
  }
  CHECK(reporters == 1);
}

// The number of connections that this process accepted on a port.
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

// Waits until there are `count` connections; an abandoned one may still be closing.
bool connections_become(std::uint16_t port, int count) {
  Deadline const deadline(20s);
  while (connections_at(port) != count) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

// Rank 1 of two, in a process of its own: joins, then waits.
struct Child {
  explicit Child(std::chrono::milliseconds heartbeat_timeout) {
    if (pipe(invite) != 0) throw std::runtime_error("no pipe");
    pid = fork();  // before this process has threads: the child starts its own
    if (pid != 0) return;
    std::pair<std::uint16_t, Key> given;
    if (read(invite[0], &given, sizeof given) != sizeof given) _exit(1);
    auto const plane = ControlPlane::connect(1, {ControlPlaneFixture::make_roster(2), {}, heartbeat_timeout},
                                             {"127.0.0.1"}, given.first, given.second, Deadline(10s));
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
  void join(ControlPlaneFixture& fixture) {
    std::pair<std::uint16_t, Key> const given{fixture.planes[0]->port(), fixture.key};
    REQUIRE(write(invite[1], &given, sizeof given) == sizeof given);
    fixture.planes[0]->barrier("join", 10s);
  }
  int invite[2]{};
  pid_t pid = 0;
};

}  // namespace

TEST_CASE("when ranks of one host share a leader, rank 0 holds one connection per host") {
  ControlPlaneFixture fixture(6, 6, three_hosts);
  CHECK(connections_become(fixture.planes[0]->port(), 2));
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
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
    plane.final_barrier("leave", 10s);
    plane.leave();
  });
  check_no_errors(thrown);
}

TEST_CASE("when a rank, a host leader or rank 0 ends without leaving, one rank names it") {
  for (int const lost : {1, 4, 3, 5, 0}) {
    INFO("rank " << lost);
    ControlPlaneFixture fixture(6, 6, three_hosts);
    auto const began = std::chrono::steady_clock::now();
    auto const thrown = fixture.run_on_all([&](int rank, ControlPlane& plane) {
      if (rank == lost) return plane.abort_connections();
      plane.barrier("epoch", 20s);
    });
    CHECK(std::chrono::steady_clock::now() - began < soon);
    for (int r = 0; r < 6; ++r) CHECK(thrown[static_cast<std::size_t>(r)].has_value() == (r != lost));
    check_one_reporter(thrown, fmt::format("rank {} (host h{}", lost, lost));
    check_one_reporter(thrown, "broke its connection");
  }
}

namespace {

// The ranks in `lost` leave without a word. Expects that one of the others reports it, when the processes of
// `lost` are in this state.
void check_reporter_among_others(const std::set<int>& lost, ProcessState state) {
  INFO("rank " << fmt::format("{}", fmt::join(lost, ", ")));
  auto const query = [&](const std::vector<int>& ranks, std::chrono::milliseconds, int) {
    std::vector<ProcessState> states;
    for (int const rank : ranks) states.push_back(lost.contains(rank) ? state : ProcessState::running);
    return states;
  };
  ControlPlaneFixture fixture(6, 6, three_hosts, 10s, 0ms, query);
  auto const thrown = fixture.run_on_all([&](int rank, ControlPlane& plane) {
    if (lost.contains(rank)) {
      // A host that does not answer is only taken for lost when rank 0 is lost, too: rank 0 is the first.
      for (Deadline const deadline(20s);
           state == ProcessState::unknown && rank != 0 && !plane.failed() && !deadline.passed();)
        std::this_thread::sleep_for(1ms);
      return plane.abort_connections();
    }
    plane.barrier("epoch", 20s);
  });
  int reporters = 0;
  for (int r = 0; r < 6; ++r) {
    auto const& error = thrown[static_cast<std::size_t>(r)];
    CHECK(error.has_value() != lost.contains(r));
    if (error && !error->reported_elsewhere()) ++reporters;
  }
  CHECK(reporters == 1);
}

}  // namespace

TEST_CASE("when the rank that reports a loss is lost at the same time, one of the others reports it") {
  // Rank 5 is alone on its host.
  std::vector<std::set<int>> const losses{{0, 3},    {0, 5}, {0, 3, 5}, {0, 3, 4, 5},
                                          {0, 1, 3}, {0, 4}, {3},       {0}};
  for (const auto& lost : losses) check_reporter_among_others(lost, ProcessState::ended);
}

TEST_CASE(
    "when the hosts of rank 0 and of the rank that reports its loss do not answer, another rank reports it") {
  for (const std::set<int>& lost : std::vector<std::set<int>>{{0, 3, 4}, {0, 5}, {0, 3, 4, 5}})
    check_reporter_among_others(lost, ProcessState::unknown);
}

TEST_CASE("when every rank fails the job, one rank reports the first error") {
  ControlPlaneFixture fixture(6, 6, three_hosts);
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
    plane.fail_job(ErrorCode::device, fmt::format("the GPU of rank {} failed", rank));
  });
  REQUIRE(thrown[0]);
  check_one_reporter(thrown, thrown[0]->what());
  for (const auto& error : thrown) CHECK(error->code() == ErrorCode::device);
}

TEST_CASE("when a rank ends because of its own error, only it reports the error, and all other ranks fail") {
  for (int round = 0; round < 20; ++round) {
    ControlPlaneFixture fixture(6, 6, three_hosts);
    int const ends = round % 6;
    auto const thrown = fixture.run_on_all([&](int rank, ControlPlane& plane) {
      if (rank == ends) return plane.abort_with_local_error();
      plane.barrier("epoch", 20s);
    });
    for (int r = 0; r < 6; ++r) {
      if (r == ends) continue;
      auto const& error = thrown[static_cast<std::size_t>(r)];
      REQUIRE(error);
      INFO(error->what());
      CHECK(has(error->what(), "left the job for a reason of its own"));
      CHECK(error->reported_elsewhere());
    }
  }
}

TEST_CASE("the store keeps small values, get() waits for them, and its size is limited") {
  ControlPlaneFixture fixture(6, 6, three_hosts);
  auto const thrown = fixture.run_on_all([](int rank, ControlPlane& plane) {
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
  check_no_errors(thrown);
  CHECK_THROWS_AS(fixture.planes[1]->put("big", Blob(max_value_bytes + 1)), Error);
  CHECK_THROWS_AS(fixture.planes[1]->put(std::string(max_key_bytes + 1, 'k'), {}), Error);
  for (std::size_t i = 0; i <= max_store_bytes / max_value_bytes; ++i)
    fixture.planes[5]->put(fmt::format("{}", i), Blob(max_value_bytes));
  try {
    fixture.planes[5]->barrier("full", 60s);
    FAIL("the store has no end");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    CHECK(has(error.what(), "rank 5 (host h5"));
  }
}

TEST_CASE("actions on the store are atomic, and answer what they cannot do") {
  using protocol::StoreAction;
  ControlPlaneFixture fixture(6, 6, three_hosts);
  auto const apply = [](ControlPlane& plane, StoreAction action, const std::string& name, Blob value = {},
                        Blob expected = {}) {
    return plane.apply({0, action, name, std::move(value), std::move(expected)});
  };
  auto const thrown = fixture.run_on_all([&](int, ControlPlane& plane) {
    for (int i = 0; i < 5; ++i) apply(plane, StoreAction::add, "sum", {'2'});
    apply(plane, StoreAction::append, "text", {7, 8});
    plane.barrier("both", 10s);
    if (plane.get("sum", 0ms) != Blob{'6', '0'}) throw Error(ErrorCode::system, "another sum");
    if (plane.get("text", 0ms)->size() != 12) throw Error(ErrorCode::system, "another text");
    if (apply(plane, StoreAction::compare_set, "first", {1}) != Blob{1})
      throw Error(ErrorCode::system, "another first value");
  });
  check_no_errors(thrown);
  auto& plane = *fixture.planes[5];
  CHECK(apply(plane, StoreAction::compare_set, "first", {2}, {9}) == Blob{1});
  CHECK(apply(plane, StoreAction::compare_set, "first", {2}, {1}) == Blob{2});
  CHECK_FALSE(apply(plane, StoreAction::compare_set, "none", {2}, {1}));
  CHECK_FALSE(apply(plane, StoreAction::add, "text", {'1'}));
  Blob const largest{'9', '2', '2', '3', '3', '7', '2', '0', '3', '6',
                     '8', '5', '4', '7', '7', '5', '8', '0', '7'};
  CHECK_FALSE(apply(plane, StoreAction::add, "sum", largest));
  CHECK_FALSE(apply(plane, StoreAction::append, "text", Blob(max_value_bytes - 11)));
  CHECK(apply(plane, StoreAction::contains, "text"));
  CHECK(apply(plane, StoreAction::erase, "text"));
  CHECK_FALSE(apply(plane, StoreAction::erase, "text"));
  CHECK_FALSE(apply(plane, StoreAction::contains, "text"));
  CHECK(apply(plane, StoreAction::count, "") == Blob{'2'});
  CHECK(apply(plane, StoreAction::count, "su") == Blob{'1'});
}

TEST_CASE("among ranks of one host, kernel and network, the lowest is the leader") {
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
    "when one process is stopped it is lost after the heartbeat timeout, but not when the whole job is") {
  constexpr auto timeout = 2s;  // a busy machine may hold a process for some time
  {
    Child child(timeout);
    ControlPlaneFixture fixture(2, 1, {}, timeout);
    child.join(fixture);
    kill(child.pid, SIGSTOP);
    auto const began = std::chrono::steady_clock::now();
    try {
      fixture.planes[0]->barrier("epoch", 20s);
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::lost_rank);
      CHECK(has(error.what(), "rank 1 (host h1"));
      CHECK(has(error.what(), "silent for 2 s"));
    }
    CHECK(std::chrono::steady_clock::now() - began < soon);
  }
  Child child(timeout);
  ControlPlaneFixture fixture(2, 1, {}, timeout);
  child.join(fixture);
  pid_t const suspends = fork();
  if (suspends == 0) {
    for (pid_t const one : {getppid(), child.pid}) kill(one, SIGSTOP);
    sleep(5);
    for (pid_t const one : {child.pid, getppid()}) kill(one, SIGCONT);
    _exit(0);
  }
  waitpid(suspends, nullptr, 0);
  std::this_thread::sleep_for(3s);
  CHECK_FALSE(fixture.planes[0]->failed());
}

TEST_CASE("when a rank's host leader never starts, the rank leaves the report to rank 0") {
  ControlPlaneFixture fixture(6, 1, three_hosts);
  try {
    fixture.connect(4, fixture.key, 200ms);
    FAIL("connected to nobody");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::deadline);
    CHECK(error.reported_elsewhere());
  }
}

TEST_CASE("child processes of a rank inherit none of its connections") {
  ControlPlaneFixture fixture(6, 6, three_hosts);
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
