// SPDX-License-Identifier: Apache-2.0
// Ranks that meet without PMIx.
#include <signal.h>
#include <sys/wait.h>

#include <atomic>

#include "rendezvous_fixture.hpp"
#include "transport/connect.hpp"
#include "transport/acceptor.hpp"
#include "transport/authenticating_acceptor.hpp"
#include "transport/handshake.hpp"

using namespace meetings;

TEST_CASE("ranks meet and everybody gets every record") {
  auto const job = new_job();
  std::vector<RendezvousConfig> plans;
  for (int r = 0; r < 9; ++r) plans.push_back(plan_of(job, r, 9));
  check_complete(meet(plans, 10s));
}

namespace {

// A process of another user, which holds a few of the names that a job's rank 0 listens on: it answers
// nobody, and does not even listen on every other one.
class Squatter {
 public:
  Squatter(const std::string& name, std::size_t count) {
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    process_ = fork();
    if (process_ == 0) {
      bool held = setuid(65534) == 0;
      auto const endpoints = control::local_endpoints(name);
      for (std::size_t i = 0; i < count && i < endpoints.size(); ++i) {
        int const socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
        held = held && bind(socket, endpoints[i].data(), static_cast<socklen_t>(endpoints[i].size())) == 0;
        held = held && (i % 2 == 1 || listen(socket, 8) == 0);
      }
      held = write(ready[1], held ? "y" : "n", 1) == 1 && held;
      for (;;) pause();
    }
    char held = 'n';
    REQUIRE(read(ready[0], &held, 1) == 1);
    close(ready[0]);
    close(ready[1]);
    REQUIRE(held == 'y');
  }
  ~Squatter() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }

 private:
  pid_t process_ = -1;
};

}  // namespace

TEST_CASE("a job meets although another user holds the name that it meets under") {
  if (geteuid() != 0) {
    WARN("not tested: only root can start a process of another user");
    return;
  }
  auto const job = new_job();
  Squatter const squatter("muster/" + job, 4);
  check_complete(meet({plan_of(job, 0, 3), plan_of(job, 1, 3), plan_of(job, 2, 3)}, 10s));
}

TEST_CASE("who finds every name held by another user says so; this user's own other job keeps its name") {
  if (geteuid() == 0) {
    auto const job = new_job();
    Squatter const squatter("muster/" + job, 100);
    auto const outcome = meet({plan_of(job, 0, 1)}, 10s)[0];
    REQUIRE(outcome.error);
    CHECK(has(outcome.error->what(), "Address already in use, by other users"));
  }
  auto const job = new_job();
  asio::io_context io;
  control::Acceptor const first(io, job);
  CHECK_THROWS_WITH(control::Acceptor(io, job), Catch::Matchers::EndsWith("Address already in use"));
}

TEST_CASE("with a key that all know, ranks meet on the first port that is free") {
  asio::io_context io;
  control::AuthenticatingAcceptor other(io);  // another program has the first port
  auto const spare = free_port();
  auto const key = control::random_key();
  std::vector<RendezvousConfig> plans;
  for (int r = 0; r < 3; ++r) {
    auto plan = plan_of("test/ports", r, 3);
    plan.local_name.clear();
    plan.seal = nullptr;
    plan.key = key;
    plan.leader_host = "127.0.0.1";
    plan.ports = {other.port(), spare};
    plans.push_back(plan);
  }
  check_complete(meet(plans, 10s));
}

TEST_CASE("the ranks of a host come to rank 0 through one of them") {
  struct Counting : CredentialCodec {
    std::vector<std::uint8_t> close(std::span<const std::uint8_t> bytes) override {
      return {bytes.begin(), bytes.end()};
    }
    std::vector<std::uint8_t> open(std::span<const std::uint8_t> sealed) override {
      ++opened;
      return {sealed.begin(), sealed.end()};
    }
    std::atomic<int> opened{0};
  };
  auto const counting = std::make_shared<Counting>();
  auto const job = new_job();
  std::vector<RendezvousConfig> plans;
  for (int r = 0; r < 12; ++r) {
    auto plan = plan_of(job, r, 12);
    plan.host_socket = fmt::format("muster/{}/host{}", job, r / 4);
    if (r == 0) plan.seal = counting;
    plans.push_back(plan);
  }
  check_complete(meet(plans, 20s));
  // One a host; rank 0's own host needs none where rank 0 was its first.
  CHECK((counting->opened == 2 || counting->opened == 3));
}

TEST_CASE("ranks meet although another rank of their host brings the others in already") {
  auto const key = control::random_key();
  auto const port = free_port();
  auto const job = new_job();
  std::vector<RendezvousConfig> plans;
  for (int r = 0; r < 4; ++r) {
    auto plan = plan_over_tcp(job, r, 4, {port});
    plan.seal = nullptr;
    plan.key = key;
    plans.push_back(plan);
  }
  asio::io_context io;
  control::AuthenticatingAcceptor const taken(io, control::local_name(key, -1) + "/" + plans[2].host_socket);
  check_complete(meet(plans, 20s));
}

TEST_CASE("ranks of a job whose name is longer than a socket's may be meet, and not those of another") {
  auto const job = new_job() + std::string(200, 'x');
  check_complete(meet({plan_of(job + "1", 0, 2), plan_of(job + "1", 1, 2)}, 10s));
  CHECK(control::local_endpoint(job + "1") != control::local_endpoint(job + "2"));
}
