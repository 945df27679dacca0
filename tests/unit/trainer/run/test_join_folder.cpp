// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "muster/error.hpp"
#include "report/run_status.hpp"
#include "run/join_folder.hpp"
#include "temporary_folder.hpp"

using namespace muster;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

Hello rank_on(const std::string& host, const std::string& gpu = "", const std::string& gpu_uuid = "") {
  Hello rank;
  rank.host = host;
  rank.gpu = gpu;
  rank.gpu_uuid = gpu_uuid;
  return rank;
}

const std::vector<Hello> on_cpu{rank_on("n1")};

struct RunningRun {
  RunningRun() {
    options.output = folder.path().string();
    write(RunStatus::State::running);
  }
  void write(RunStatus::State state) { write_status(folder.path() / "status.json", {state, 3, 9, {}}); }
  std::future<JoinAnswer> ask(const RunFingerprint& own, const std::string& gpus = "") const {
    return std::async(std::launch::async, [=, this] { return request_invitation(options, own, gpus); });
  }
  void await_request(JoinFolder& join, const std::vector<Hello>& ranks = on_cpu) const {
    const auto limit = std::chrono::steady_clock::now() + 60s;
    while (!join.has_requests(ranks) && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(5ms);
    REQUIRE(join.waiting() == 1);
  }

  TemporaryFolder folder;
  Options options;
};

}  // namespace

TEST_CASE("a process that wants to join gets the invitation that rank 0 writes") {
  RunningRun run;
  JoinFolder join(run.options.output, {1, 2}, [](int) { return 0; });
  CHECK_FALSE(join.has_requests(on_cpu));
  auto answer = run.ask({1, 2});
  run.await_request(join);
  join.invite({"come"});
  CHECK(answer.get().invitation == "come");
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
  while (answer.wait_for(5ms) != std::future_status::ready) REQUIRE_FALSE(join.has_requests(on_cpu));
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
  while (!join.has_requests(on_cpu) && std::chrono::steady_clock::now() < limit) {
    request();
    std::this_thread::sleep_for(5ms);
  }
  CHECK(join.waiting() == 1);
  request();  // for the last time
  join.forget();
  const auto later = std::chrono::steady_clock::now() + 2500ms;
  while (std::chrono::steady_clock::now() < later) {
    REQUIRE_FALSE(join.has_requests(on_cpu));
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
    std::ofstream(folder / (name + ".request")) << "1 2 gpus= " << free << " available on this host\n";
  };
  // Each of them writes its request again and again.
  const auto limit = std::chrono::steady_clock::now() + 60s;
  while (!join.has_requests(on_cpu) && std::chrono::steady_clock::now() < limit) {
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

TEST_CASE("a process that joins gets a GPU that no other rank uses, or is refused") {
  RunningRun run;
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  std::vector<Hello> ranks{rank_on(host, "0000:01:00.0", "GPU-1a"), rank_on(host, "0000:03:00.0", "GPU-3c"),
                           rank_on("other", "0000:02:00.0", "GPU-2b")};
  JoinFolder join(run.options.output, {1, 2}, [](int) { return 0; });
  const auto joins_on = [&](const std::string& gpus) {
    auto answer = run.ask({1, 2}, gpus);
    run.await_request(join, ranks);
    join.invite({"come"});
    const auto [invitation, gpu] = answer.get();
    join.forget();
    CHECK(invitation == "come");
    return gpu;
  };
  CHECK(joins_on("0000:01:00.0,0000:02:00.0") == "0000:02:00.0");
  CHECK(joins_on("").empty());
  auto answer = run.ask({1, 2}, "0000:01:00.0,0000:03:00.0");
  while (answer.wait_for(5ms) != std::future_status::ready) REQUIRE_FALSE(join.has_requests(ranks));
  CHECK_THROWS_WITH(
      answer.get(),
      ContainsSubstring("each GPU of this process on ") &&
          ContainsSubstring("(0000:01:00.0,0000:03:00.0) is used by another rank, or promised"));
  for (Hello& rank : ranks) rank.gpu_uuid.clear();  // they compute on the CPU
  CHECK(joins_on("0000:01:00.0").empty());
}

TEST_CASE("two processes of a host that join together get different GPUs") {
  RunningRun run;
  const std::filesystem::path folder = run.folder.path() / "join";
  std::filesystem::create_directory(folder);
  JoinFolder join(run.options.output, {1, 2}, [](int) { return 0; });
  const std::vector<Hello> ranks{rank_on("n1", "0000:01:00.0", "GPU-1a")};
  const auto limit = std::chrono::steady_clock::now() + 60s;
  while (!join.has_requests(ranks) && std::chrono::steady_clock::now() < limit) {
    for (const char* name : {"n1.7", "n1.8", "n2.7"})
      std::ofstream(folder / (name + std::string(".request")))
          << "1 2 gpus=0000:01:00.0,0000:02:00.0,0000:03:00.0 0 x\n";
    std::this_thread::sleep_for(5ms);
  }
  REQUIRE(join.waiting() == 3);
  join.invite({"a", "b", "c"});
  const auto gpu_of = [&](const std::string& name) {
    std::string gpu;
    std::getline(std::ifstream(folder / (name + ".answer")), gpu);
    return gpu;
  };
  CHECK(std::set{gpu_of("n1.7"), gpu_of("n1.8")} == std::set<std::string>{"0000:02:00.0", "0000:03:00.0"});
  CHECK(gpu_of("n2.7") == "0000:01:00.0");
}

TEST_CASE("a process cannot join a run that is not under way") {
  RunningRun run;
  SECTION("finished") { run.write(RunStatus::State::finished); }
  SECTION("never started") { std::filesystem::remove(run.folder.path() / "status.json"); }
  try {
    request_invitation(run.options, {}, "");
    FAIL("it was invited");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    CHECK(std::string(error.what()).starts_with("--join: no run is under way in "));
  }
}
