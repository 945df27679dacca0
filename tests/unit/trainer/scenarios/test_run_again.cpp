// SPDX-License-Identifier: Apache-2.0
// Runs that are stopped early or finished, and then started again.
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <thread>

#include "catch.hpp"
#include "content.hpp"
#include "files/append_file.hpp"
#include "files/folder_lock.hpp"
#include "muster/error.hpp"
#include "report/metrics.hpp"
#include "report/progress.hpp"
#include "report/run_status.hpp"
#include "run/signal_handler.hpp"
#include "small_run.hpp"

using namespace muster;
using namespace small_run_of_one;

namespace {

/// The validation lines of a run's metrics.
std::vector<std::string> validations(const Options& options) {
  std::istringstream text(content(std::filesystem::path(options.output) / "metrics.jsonl"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);)
    if (line.find("validation_loss") != std::string::npos) lines.push_back(line);
  return lines;
}

bool flock_exists = true;

// While it lives, the file system has no flock, as Lustre without the mount option.
struct NoFlock {
  NoFlock() { flock_exists = false; }
  ~NoFlock() { flock_exists = true; }
};

// What FolderLock throws; empty when it does not.
std::string lock_error(const TemporaryFolder& folder) {
  try {
    FolderLock(folder.path(), std::chrono::milliseconds(0));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string this_host() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return host;
}

}  // namespace

// This replaces the C library's function in this program.
extern "C" int flock(int file, int operation) noexcept {
  if (flock_exists) return static_cast<int>(::syscall(SYS_flock, file, operation));
  errno = ENOSYS;
  return -1;
}

TEST_CASE("without flock too, only one run at a time trains into a folder", "[run_again]") {
  const TemporaryFolder folder;
  const NoFlock none;
  {
    const FolderLock lock(folder.path());
    CHECK_FALSE(lock.has_flock());
    CHECK(lock_error(folder).find("process " + std::to_string(::getpid()) + " on ") == 0);
    CHECK(lock_error(folder).find("; if it has ended, remove " + (folder / ".lock.held").string()) !=
          std::string::npos);
  }
  CHECK(lock_error(folder).empty());
  CHECK_FALSE(std::filesystem::exists(folder / ".lock.held"));
}

TEST_CASE("without flock, a run takes a folder from one that has certainly ended", "[run_again]") {
  const TemporaryFolder folder;
  const NoFlock none;
  const pid_t ended = ::fork();
  if (ended == 0) ::_exit(0);
  REQUIRE(::waitpid(ended, nullptr, 0) == ended);
  const auto held = folder / ".lock.held";
  write_file(held, "process " + std::to_string(ended) + " on " + this_host() + "\n");
  CHECK(lock_error(folder).empty());
  write_file(held, "process " + std::to_string(::getpid()) + " on " + this_host() + "\n");
  CHECK_FALSE(lock_error(folder).empty());
  // On another host only Slurm can know.
  const std::string elsewhere = "process 7 on another-host, start 1 of job 12\n";
  write_file(held, elsewhere);
  CHECK_FALSE(lock_error(folder).empty());
  ::setenv("SLURM_JOB_ID", "12", 1);
  for (const auto& [start, is_free] : {std::pair{"1", false}, std::pair{"2", true}}) {
    ::setenv("SLURM_RESTART_COUNT", start, 1);
    CHECK(lock_error(folder).empty() == is_free);
  }
  write_file(held, elsewhere);
  ::setenv("SLURM_JOB_ID", "13", 1);
  CHECK_FALSE(lock_error(folder).empty());
  ::unsetenv("SLURM_JOB_ID");
  ::unsetenv("SLURM_RESTART_COUNT");
}

TEST_CASE("the lock and the metrics are not opened through links, nor as FIFOs", "[run_again]") {
  const TemporaryFolder folder;
  const std::string target = folder.write("target", "kept");
  folder.link(".lock", target);
  CHECK(lock_error(folder) == "cannot open " + (folder / ".lock").string() + ": it is a symbolic link");
  CHECK_THROWS_AS(AppendFile(folder / ".lock"), Error);
  CHECK(content(target) == "kept");
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0666) == 0);
  CHECK_THROWS_AS(AppendFile(folder / "fifo"), Error);
  Metrics metrics(folder / "fifo", true, 7);  // it reads the earlier lines
  CHECK(std::filesystem::is_regular_file(folder / "fifo"));
}

TEST_CASE("only one run at a time trains into a folder", "[run_again]") {
  const TemporaryFolder folder;
  {
    const FolderLock lock(folder.path());
    CHECK(lock_error(folder).find("process " + std::to_string(::getpid()) + " on ") == 0);
    CHECK(lock_error(folder).find(folder.path().string() + " already") != std::string::npos);
  }
  CHECK(lock_error(folder).empty());

  const Options options = small_run(folder);
  std::filesystem::create_directories(options.output);
  const FolderLock lock(options.output);
  const auto output = std::filesystem::path(options.output);
  write_status(output / "status.json", {RunStatus::State::running, 7, 9, {}});
  CHECK(run_exit_code(options) == 64);
  CHECK_FALSE(std::filesystem::exists(output / "metrics.jsonl"));
  CHECK(last_line(output / "status.json").at("state") == "running");  // written by the first run
}

TEST_CASE("a finished run that is started again leaves its results unchanged", "[run_again]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.steps = 20;
  CHECK(train_alone(options) == 0);
  const auto read_results = [&] {
    return content(folder / "run/summary.json") + content(folder / "run/report.html");
  };
  const std::string first = read_results();
  CHECK(train_alone(options) == 0);
  CHECK(read_results() == first);
  options.steps = 25;
  CHECK(train_alone(options) == 0);
  CHECK(nlohmann::json::parse(content(folder / "run/summary.json")).at("steps") == 25);
  write_file(folder / "run/summary.json", "{");  // from a run that was killed while it wrote its results
  CHECK(train_alone(options) == 0);
  CHECK(nlohmann::json::parse(content(folder / "run/summary.json")).at("ended") == "finished");
}

TEST_CASE("after a process is killed, another run can use its folder", "[run_again]") {
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
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK_NOTHROW(FolderLock(folder.path()));
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("the first signal sets a flag, and the second one ends the process at once", "[run_again]") {
  const pid_t child = ::fork();
  if (child == 0) {
    const SignalHandler watch;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    ::kill(::getpid(), SIGTERM);
    while (received_signal() != SIGTERM && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (received_signal() != SIGTERM) ::_exit(1);
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

TEST_CASE("a validation that a signal interrupts is repeated when the run continues: nothing is missing",
          "[run_again]") {
  const TemporaryFolder folder;
  Options options = small_run(folder);
  options.validation_fraction = 0.9;
  options.steps = 20;
  options.eval_every = 1;
  options.checkpoint_every = 0;
  CHECK(train_alone(options) == 0);
  const std::string whole = read_checkpoint_bytes(checkpoint_folder(options, 20));
  const auto losses = validations(options);
  REQUIRE(losses.size() == 20);

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
  CHECK(status.at("step") < 20);
  // Validation takes nine tenths of the time here, so nearly every signal interrupts one, and its line is
  // missing.
  CHECK(validations(options).size() <= status.at("step").get<std::size_t>());
  CHECK(train_alone(options) == 0);
  CHECK(validations(options) == losses);
  CHECK(read_checkpoint_bytes(checkpoint_folder(options, 20)) == whole);
}

TEST_CASE("the time of a skipped step is not added to another step", "[run_again]") {
  Progress progress(false, 1000, 10, Throughput(), "tokens");
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto before = std::chrono::steady_clock::now();
  progress.skip();
  const double seconds = progress.step(2, 1.0, 10, 0);
  CHECK(seconds <= std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count());
}

TEST_CASE("a run that lost a rank has its own state", "[run_again]") {
  CHECK(status_line({RunStatus::State::lost, 3, 9, {}}) ==
        "{\"state\":\"lost\",\"step\":3,\"steps\":9,\"checkpoint\":null}\n");
  CHECK(
      status_line({RunStatus::State::running, 3, 9, {}, {"n1", "n1"}}) ==
      "{\"state\":\"running\",\"step\":3,\"steps\":9,\"checkpoint\":null,\"lost_hosts\":[\"n1\",\"n1\"]}\n");
}
