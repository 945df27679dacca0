// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <string>
#include <thread>

#include "catch.hpp"
#include "muster/error.hpp"
#include "report/run_status.hpp"
#include "run/join_folder.hpp"
#include "temporary_folder.hpp"

using namespace muster;
using namespace std::chrono_literals;

namespace {

struct RunningRun {
  RunningRun() {
    options.output = folder.path().string();
    write(RunStatus::State::running);
  }
  void write(RunStatus::State state) { write_status(folder.path() / "status.json", {state, 3, 9, {}}); }
  std::future<std::string> ask(const RunFingerprint& own) const {
    return std::async(std::launch::async, [this, own] { return request_invitation(options, own); });
  }
  void await_request(JoinFolder& join) const {
    const auto limit = std::chrono::steady_clock::now() + 60s;
    while (!join.has_requests() && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(5ms);
    REQUIRE(join.waiting() == 1);
  }

  TemporaryFolder folder;
  Options options;
};

}  // namespace

TEST_CASE("a process that wants to join gets the invitation that rank 0 writes") {
  RunningRun run;
  JoinFolder join(run.options.output, {1, 2}, [](int) { return 0; });
  CHECK_FALSE(join.has_requests());
  auto answer = run.ask({1, 2});
  run.await_request(join);
  join.invite({"come"});
  CHECK(answer.get() == "come");
  join.forget();
  CHECK(join.waiting() == 0);
  CHECK(std::filesystem::is_empty(run.folder.path() / "join"));
}

TEST_CASE("a process that does not fit the run is refused, and one that has ended is not invited") {
  RunningRun run;
  JoinFolder join(run.options.output, {1, 2}, [](int) { return 0; });
  std::filesystem::create_directory(run.folder.path() / "join");
  std::ofstream(run.folder.path() / "join" / "dead.1.request") << "1 2\n";
  const RunFingerprint other = GENERATE(RunFingerprint{3, 2}, RunFingerprint{1, 4});
  auto answer = run.ask(other);
  while (answer.wait_for(5ms) != std::future_status::ready) REQUIRE_FALSE(join.has_requests());
  try {
    answer.get();
    FAIL("it was invited");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    CHECK(std::string(error.what())
              .starts_with(other.settings == 3 ? "--join: the run was started with other options"
                                               : "--join: the run has other data"));
  }
}

TEST_CASE("a process that has ended after its invitation is not invited again") {
  RunningRun run;
  JoinFolder join(run.options.output, {1, 2}, [](int) { return 0; });
  std::filesystem::create_directory(run.folder.path() / "join");
  const auto request = [&] { std::ofstream(run.folder.path() / "join" / "dying.1.request") << "1 2\n"; };
  const auto limit = std::chrono::steady_clock::now() + 60s;
  while (!join.has_requests() && std::chrono::steady_clock::now() < limit) {
    request();
    std::this_thread::sleep_for(5ms);
  }
  CHECK(join.waiting() == 1);
  request();  // for the last time
  join.forget();
  const auto later = std::chrono::steady_clock::now() + 2500ms;
  while (std::chrono::steady_clock::now() < later) {
    REQUIRE_FALSE(join.has_requests());
    std::this_thread::sleep_for(5ms);
  }
}

TEST_CASE("of the processes of a host only as many are invited as its memory has room for") {
  RunningRun run;
  const std::filesystem::path folder = run.folder.path() / "join";
  std::filesystem::create_directory(folder);
  JoinFolder join(run.options.output, {1, 2},
                  [](int processes) { return 40u * static_cast<unsigned>(processes); });
  const auto request = [&](const std::string& name, int free) {
    std::ofstream(folder / (name + ".request")) << "1 2 " << free << " available on this host\n";
  };
  // Each of them writes its request again and again.
  const auto limit = std::chrono::steady_clock::now() + 60s;
  while (!join.has_requests() && std::chrono::steady_clock::now() < limit) {
    for (const char* name : {"n1.7", "n1.8", "n1.9"}) request(name, 100);
    request("n2.example.7", 60);
    request("n3.7", 39);
    std::this_thread::sleep_for(5ms);
  }
  CHECK(join.waiting() == 3);
  const auto answer_of = [&](const std::string& name) {
    std::ifstream answer(folder / (name + ".answer"));
    return std::string(std::istreambuf_iterator<char>(answer), {});
  };
  int refused = 0;
  for (const char* name : {"n1.7", "n1.8", "n1.9"}) {
    const std::string answer = answer_of(name);
    if (answer.empty()) continue;
    ++refused;
    CHECK(answer.starts_with("refused: 3 new ranks on n1 need "));
  }
  CHECK(refused == 1);
  CHECK(answer_of("n2.example.7").empty());
  CHECK(answer_of("n3.7").starts_with("refused: 1 new rank on n3 needs "));
}

TEST_CASE("a process cannot join a run that is not under way") {
  RunningRun run;
  SECTION("finished") { run.write(RunStatus::State::finished); }
  SECTION("never started") { std::filesystem::remove(run.folder.path() / "status.json"); }
  try {
    request_invitation(run.options, {});
    FAIL("it was invited");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    CHECK(std::string(error.what()).starts_with("--join: no run is under way in "));
  }
}
