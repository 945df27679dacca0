// SPDX-License-Identifier: Apache-2.0
// Ranks that join after the failure of their rendezvous was reported.
#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>
#include <utility>

#include "rendezvous/failure_marker.hpp"
#include "rendezvous_fixture.hpp"

using namespace rendezvous_test;

namespace {

RendezvousConfig make_marker_config(const std::string& job, int rank, int size) {
  auto config = make_config(job, rank, size);
  config.use_failure_marker = true;
  return config;
}

bool has_user_keyring() {
  return ::syscall(SYS_add_key, "user", "muster:test", "x", 1, KEY_SPEC_USER_KEYRING) > 0;
}

// A process that starts now and joins when join() is called.
class LateRank {
 public:
  explicit LateRank(const RendezvousConfig& config) {
    REQUIRE(pipe(go_) == 0);
    pid_ = fork();
    if (pid_ != 0) return;
    alarm(60);
    char byte = 0;
    if (read(go_[0], &byte, 1) != 1) _exit(9);
    try {
      make_rendezvous_bootstrap(config)->exchange(make_record(config.rank), Deadline(300ms));
      _exit(8);
    } catch (const Error& error) {
      _exit(error.reported_elsewhere() ? 0 : 1);
    }
  }
  ~LateRank() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(go_[0]);
    close(go_[1]);
  }
  LateRank(const LateRank&) = delete;
  LateRank& operator=(const LateRank&) = delete;

  // Exit status 0: it ended silently, 1: it reported an error.
  int join() {
    if (write(go_[1], "", 1) != 1) return 7;
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 6;
  }

 private:
  int go_[2]{};
  pid_t pid_ = 0;
};

}  // namespace

TEST_CASE("when a rank joins after the failure was reported, it ends silently") {
  if (!has_user_keyring()) {
    WARN("skipped: the kernel keeps no keys for this process");
    return;
  }
  auto const job = new_job();
  std::vector<int> present{0, 1};
  int late = 2;
  SECTION("rank 0 reported it") {}
  SECTION("rank 0 is the one that is late") {
    present = {1, 2};
    late = 0;
  }
  LateRank first(make_marker_config(job, late, 3));
  std::vector<RendezvousConfig> configs;
  for (int const rank : present) {
    configs.push_back(make_marker_config(job, rank, 3));
    configs.back().host_socket = "muster/host/" + job;
  }
  CHECK(count_reporters(join_all(configs, 1s)) == 1);
  LateRank of_another_attempt(make_marker_config(job, late, 3));
  CHECK(first.join() == 0);
  CHECK(of_another_attempt.join() == 1);
}

TEST_CASE("when a job's failure was reported, another job's and its own next one are still reported") {
  if (!has_user_keyring()) {
    WARN("skipped: the kernel keeps no keys for this process");
    return;
  }
  auto const job = new_job();
  mark_failure_reported(job);
  CHECK_FALSE(failure_was_reported(job));  // this process reported it itself
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto const outcomes = join_all({make_marker_config(job, 0, 2)}, 100ms);
    CHECK(count_reporters(outcomes) == 1);
  }
  CHECK_FALSE(failure_was_reported(new_job()));
}
