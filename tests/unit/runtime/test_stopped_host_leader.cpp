// SPDX-License-Identifier: Apache-2.0
// The rank through which the others of its host go to rank 0 is stopped.
#include <sys/wait.h>

#include <csignal>

#include "rendezvous_fixture.hpp"
#include "rendezvous/host_leader.hpp"

using namespace meetings;

namespace {

// A process that takes the host's socket and is stopped at once.
class StoppedFirst {
 public:
  explicit StoppedFirst(const RendezvousConfig& plan) : pid_(fork()) {
    if (pid_ == 0) {
      asio::io_context io;
      auto const host = HostLeader::try_first(io, plan);
      if (host) raise(SIGSTOP);
      _exit(1);
    }
    int status = 0;
    REQUIRE(waitpid(pid_, &status, WUNTRACED) == pid_);
    REQUIRE(WIFSTOPPED(status));
  }
  ~StoppedFirst() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  StoppedFirst(const StoppedFirst&) = delete;
  StoppedFirst& operator=(const StoppedFirst&) = delete;

 private:
  pid_t pid_;
};

// Rank 0 on a host of its own, the others on another.
RendezvousConfig plan_of_host(const std::string& job, int rank, int size) {
  auto plan = plan_of(job, rank, size);
  plan.host_socket = fmt::format("muster/{}/host{}", job, rank == 0 ? 0 : 1);
  return plan;
}

}  // namespace

TEST_CASE("when the first of a host is stopped and rank 0 is missing, another of the host says so") {
  auto const job = new_job();
  StoppedFirst const first(plan_of_host(job, 1, 4));
  auto const outcomes = meet({plan_of_host(job, 2, 4), plan_of_host(job, 3, 4)}, 1s);
  for (const auto& outcome : outcomes) REQUIRE(outcome.error);
  CHECK(speakers(outcomes) == 1);
  for (const auto& outcome : outcomes) {
    if (outcome.error->reported_elsewhere()) continue;
    CHECK(has(outcome.error->what(), "cannot meet rank 0 within 1 s"));
    CHECK(has(outcome.error->what(), "the first rank that came on host h1 is stopped"));
  }
}

TEST_CASE("when the first of a host is stopped, the others meet rank 0 without it") {
  auto const job = new_job();
  StoppedFirst const first(plan_of_host(job, 1, 4));
  auto const outcomes = meet({plan_of_host(job, 0, 4), plan_of_host(job, 2, 4), plan_of_host(job, 3, 4)}, 2s);
  for (const auto& outcome : outcomes) REQUIRE(outcome.error);
  CHECK(speakers(outcomes) == 1);
  CHECK(has(outcomes[0].error->what(), "join: 1 of 4 ranks missing after 2 s: rank 1 (host h0)"));
  for (const auto& outcome : outcomes) CHECK(outcome.error->what() == std::string(outcomes[0].error->what()));
}
