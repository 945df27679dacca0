// SPDX-License-Identifier: Apache-2.0
// Ranks that come to a meeting when its failure has been told.
#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>
#include <utility>

#include "rendezvous_fixture.hpp"
#include "rendezvous/failure_marker.hpp"

using namespace meetings;

namespace {

RendezvousConfig plan_that_keeps(const std::string& job, int rank, int size) {
  auto plan = plan_of(job, rank, size);
  plan.keeps_what_was_told = true;
  return plan;
}

bool keeps_keys() { return ::syscall(SYS_add_key, "user", "muster:test", "x", 1, KEY_SPEC_USER_KEYRING) > 0; }

// A process that begins now and joins when it is told to.
class Latecomer {
 public:
  explicit Latecomer(const RendezvousConfig& plan) {
    REQUIRE(pipe(go_) == 0);
    pid_ = fork();
    if (pid_ != 0) return;
    alarm(60);
    char byte = 0;
    if (read(go_[0], &byte, 1) != 1) _exit(9);
    try {
      meeting(plan)->exchange(record_of(plan.rank), Deadline(300ms));
      _exit(8);
    } catch (const Error& error) {
      _exit(error.reported_elsewhere() ? 0 : 1);
    }
  }
  ~Latecomer() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    close(go_[0]);
    close(go_[1]);
  }
  Latecomer(const Latecomer&) = delete;
  Latecomer& operator=(const Latecomer&) = delete;

  // 0: it ended without a word, 1: with one.
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

TEST_CASE("a rank that comes when the failure has been told ends without a word") {
  if (!keeps_keys()) {
    WARN("skipped: the kernel keeps no keys for this process");
    return;
  }
  auto const job = new_job();
  std::vector<int> present{0, 1};
  int late = 2;
  SECTION("rank 0 told it") {}
  SECTION("rank 0 is the one that is late") {
    present = {1, 2};
    late = 0;
  }
  Latecomer first(plan_that_keeps(job, late, 3));
  std::vector<RendezvousConfig> plans;
  for (int const rank : present) {
    plans.push_back(plan_that_keeps(job, rank, 3));
    plans.back().host_socket = "muster/host/" + job;
  }
  CHECK(speakers(meet(plans, 1s)) == 1);
  Latecomer of_another_attempt(plan_that_keeps(job, late, 3));
  CHECK(first.join() == 0);
  CHECK(of_another_attempt.join() == 1);
}

TEST_CASE("what was told of one job does not silence another, nor a second failure of one's own") {
  if (!keeps_keys()) {
    WARN("skipped: the kernel keeps no keys for this process");
    return;
  }
  auto const job = new_job();
  mark_failure_reported(job);
  CHECK_FALSE(failure_was_reported(job));  // this process told it itself
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto const outcomes = meet({plan_that_keeps(job, 0, 2)}, 100ms);
    CHECK(speakers(outcomes) == 1);
  }
  CHECK_FALSE(failure_was_reported(new_job()));
}
