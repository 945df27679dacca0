// SPDX-License-Identifier: Apache-2.0
// Runs that end early and start again, or at once.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "catch.hpp"
#include "files/folder_lock.hpp"
#include "muster/error.hpp"
#include "report/progress.hpp"
#include "report/run_status.hpp"
#include "run/signal_handler.hpp"
#include "small_run.hpp"

using namespace muster;
using namespace small_run_of_one;

namespace {

/// The lines of a run's validations.
std::vector<std::string> validations(const Options& options) {
  std::istringstream text(read_file(std::filesystem::path(options.output) / "metrics.jsonl"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);)
    if (line.find("validation_loss") != std::string::npos) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("one run at a time trains into a folder", "[run_again]") {
  const TemporaryFolder folder;
  const auto complaint = [&] {
    try {
      FolderLock(folder.path(), std::chrono::milliseconds(0));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  {
    const FolderLock lock(folder.path());
    CHECK(complaint().find("process " + std::to_string(::getpid()) + " on ") == 0);
    CHECK(complaint().find(folder.path().string() + " already") != std::string::npos);
  }
  CHECK(complaint() == "accepted");

  const Options options = small_run(folder);
  std::filesystem::create_directories(options.output);
  const FolderLock lock(options.output);
  const auto output = std::filesystem::path(options.output);
  write_status(output / "status.json", {RunStatus::State::running, 7, 9, {}});
  CHECK(code_of(options) == 64);
  CHECK_FALSE(std::filesystem::exists(output / "metrics.jsonl"));
  CHECK(last_line(output / "status.json").at("state") == "running");  // the first run's
}

TEST_CASE("a finished run that is started again leaves what it has told as it is", "[run_again]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.steps = 20;
  CHECK(train_alone(options) == 0);
  const auto told = [&] {
    return read_file(folder / "run/summary.json") + read_file(folder / "run/report.html");
  };
  const std::string first = told();
  CHECK(train_alone(options) == 0);
  CHECK(told() == first);
  options.steps = 25;
  CHECK(train_alone(options) == 0);
  CHECK(nlohmann::json::parse(read_file(folder / "run/summary.json")).at("steps") == 25);
  write_file(folder / "run/summary.json", "{");  // from a run that was killed before it had told anything
  CHECK(train_alone(options) == 0);
  CHECK(nlohmann::json::parse(read_file(folder / "run/summary.json")).at("ended") == "finished");
}

TEST_CASE("a killed process keeps nobody out of its folder", "[run_again]") {
  const TemporaryFolder folder;
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FolderLock lock(folder.path());
    char done = 1;
    if (::write(ready[1], &done, 1) == 1) ::pause();
    ::_exit(1);
  }
  char done = 0;
  REQUIRE(::read(ready[0], &done, 1) == 1);
  CHECK_THROWS_AS(FolderLock(folder.path(), std::chrono::milliseconds(0)), Error);
  REQUIRE(::kill(child, SIGKILL) == 0);
  CHECK_NOTHROW(FolderLock(folder.path()));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("the first signal is remembered, and the second one ends the process at once", "[run_again]") {
  const pid_t child = ::fork();
  if (child == 0) {
    const InterruptWatch watch;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    ::kill(::getpid(), SIGTERM);
    while (interrupt_received() != SIGTERM && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (interrupt_received() != SIGTERM) ::_exit(1);
    ::kill(::getpid(), SIGINT);
    while (std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ::_exit(2);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CAPTURE(status);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
}

TEST_CASE("a signal cuts a validation, which is made when the run goes on: nothing is missing",
          "[run_again]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.validation_fraction = 0.9;
  options.steps = 6;
  options.eval_every = 1;
  options.checkpoint_every = 0;
  CHECK(train_alone(options) == 0);
  const std::string whole = bytes_of(checkpoint_of(options, 6));
  const auto losses = validations(options);
  REQUIRE(losses.size() == 6);

  options.output = (folder / "cut").string();
  const auto metrics = std::filesystem::path(options.output) / "metrics.jsonl";
  std::thread sender([&] {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!std::filesystem::exists(metrics) && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ::kill(::getpid(), SIGTERM);
  });
  CHECK(train_alone(options) == 0);
  sender.join();
  const auto status = last_line(std::filesystem::path(options.output) / "status.json");
  CHECK(status.at("state") == "unfinished");
  CHECK(status.at("step") < 6);
  // Here nine tenths of the time are validation: nearly always one is cut, and then the step's is not there.
  CHECK(validations(options).size() <= status.at("step").get<std::size_t>());
  CHECK(train_alone(options) == 0);
  CHECK(validations(options) == losses);
  CHECK(bytes_of(checkpoint_of(options, 6)) == whole);
}

TEST_CASE("the time of a skipped step is no other step's", "[run_again]") {
  Progress progress(false, 1000, 10, Pace(), "tokens");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto before = std::chrono::steady_clock::now();
  progress.skip();
  const double seconds = progress.step(2, 1.0, 10, 0);
  CHECK(seconds <= std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count());
}

TEST_CASE("a lost rank has a state of its own", "[run_again]") {
  CHECK(status_line({RunStatus::State::lost, 3, 9, {}}) ==
        "{\"state\":\"lost\",\"step\":3,\"steps\":9,\"checkpoint\":null}\n");
}
