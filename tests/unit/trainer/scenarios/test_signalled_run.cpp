// SPDX-License-Identifier: Apache-2.0
// The effect of signals on a run.
#include <signal.h>
#include <sys/time.h>

#include <thread>

#include "catch.hpp"
#include "small_run.hpp"
#include "temporary_folder.hpp"

using namespace muster;
using namespace small_run_of_one;

TEST_CASE("after a signal a run stops with a checkpoint, and the resumed run ends as if never stopped",
          "[training]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.steps = 1500;
  options.eval_every = options.checkpoint_every = 0;
  CHECK(train_alone(options) == 0);
  const std::string whole = read_checkpoint_bytes(checkpoint_folder(options, 1500));

  options.status = (folder / "status").string();
  for (const int signal : {SIGTERM, SIGUSR2, SIGUSR1, SIGINT}) {
    CAPTURE(signal);
    options.output = (folder / ("stopped" + std::to_string(signal))).string();
    std::thread sender = signal_during_training(options, signal);
    CHECK(train_alone(options) == (signal == SIGINT ? 128 + SIGINT : 0));
    sender.join();
    const auto status = last_line(options.status);
    CHECK(status.at("state") == (signal == SIGINT ? "stopped" : "unfinished"));
    const std::int64_t step = status.at("step");
    CHECK(step < 1500);
    CHECK(last_line(std::filesystem::path(options.output) / "metrics.jsonl").at("step") == step);
    CHECK(status.at("checkpoint") == checkpoint_folder(options, step).string());
    CHECK(train_alone(options) == 0);
    CHECK(read_checkpoint_bytes(checkpoint_folder(options, 1500)) == whole);
    CHECK(last_line(options.status).at("state") == "finished");
  }
}

TEST_CASE("signals during matrix products change no bit", "[training]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  CHECK(train_alone(options) == 0);
  const std::string whole = read_checkpoint_bytes(checkpoint_folder(options, 60));
  options.output = (folder / "again").string();
  struct sigaction nothing {
  }, before{};
  nothing.sa_handler = [](int) {};
  nothing.sa_flags = SA_RESTART;
  REQUIRE(::sigaction(SIGALRM, &nothing, &before) == 0);
  const struct itimerval often {
    {0, 200}, { 0, 200 }
  }, never{};
  REQUIRE(::setitimer(ITIMER_REAL, &often, nullptr) == 0);
  const int code = run_exit_code(options);
  REQUIRE(::setitimer(ITIMER_REAL, &never, nullptr) == 0);
  REQUIRE(::sigaction(SIGALRM, &before, nullptr) == 0);
  CHECK(code == 0);
  CHECK(read_checkpoint_bytes(checkpoint_folder(options, 60)) == whole);
}
