// SPDX-License-Identifier: Apache-2.0
// The host leader, which connects its host's ranks to rank 0, is stopped.
#include <sys/wait.h>

#include <csignal>

#include "rendezvous/host_leader.hpp"
#include "rendezvous_fixture.hpp"

using namespace rendezvous_test;

namespace {

// A process that binds the host's socket and stops at once.
class StoppedLeader {
 public:
  explicit StoppedLeader(const RendezvousConfig& config) : pid_(fork()) {
    if (pid_ == 0) {
      asio::io_context io;
      auto const host = HostLeader::try_become_leader(io, config);
      if (host) raise(SIGSTOP);
      _exit(1);
    }
    int status = 0;
    REQUIRE(waitpid(pid_, &status, WUNTRACED) == pid_);
    REQUIRE(WIFSTOPPED(status));
  }
  ~StoppedLeader() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  StoppedLeader(const StoppedLeader&) = delete;
  StoppedLeader& operator=(const StoppedLeader&) = delete;

 private:
  pid_t pid_;
};

// Rank 0 on one host, the others on another.
RendezvousConfig make_host_config(const std::string& job, int rank, int size) {
  auto config = make_config(job, rank, size);
  config.host_socket = fmt::format("muster/{}/host{}", job, rank == 0 ? 0 : 1);
  return config;
}

}  // namespace

TEST_CASE("when a host leader is stopped, the host's other ranks meet rank 0 without it") {
  auto const job = new_job();
  StoppedLeader const first(make_host_config(job, 1, 4));
  auto const outcomes =
      join_all({make_host_config(job, 0, 4), make_host_config(job, 2, 4), make_host_config(job, 3, 4)}, 5s);
  for (const auto& outcome : outcomes) REQUIRE(outcome.error);
  CHECK(count_reporters(outcomes) == 1);
  CHECK(has(outcomes[0].error->what(), "join: 1 of 4 ranks missing after 5 s: rank 1 (host h0)"));
  for (const auto& outcome : outcomes) CHECK(outcome.error->what() == std::string(outcomes[0].error->what()));
}
