// SPDX-License-Identifier: Apache-2.0
// The counters of operations, their file and their text. observed_ranks.py parses the text.
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "catch.hpp"
#include "content.hpp"
#include "has.hpp"
#include "telemetry/counters.hpp"
#include "telemetry/metrics_file.hpp"

using namespace muster;
using namespace muster::observe;
using namespace std::chrono_literals;

namespace {

Hello make_hello(int rank) {
  Hello hello;
  hello.rank = rank;
  hello.host = "n1";
  return hello;
}

const RankMetrics::Operation& find_operation(const RankMetrics& metrics, const std::string& operation) {
  for (const auto& one : metrics.operations)
    if (one.operation == operation) return one;
  throw std::runtime_error("no such operation");
}

}  // namespace

TEST_CASE("when several threads count, the sums are right and the last operation is consistent") {
  Counters counters;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::uint64_t i = 1; i <= 1000; ++i) {
        counters.enter(OperationKind::all_reduce, {"world", i}, 2 * i);
        counters.leave(OperationKind::all_reduce, 1000);
        auto const last = counters.read(make_hello(0)).last;
        if (last.bytes != 2 * last.number) std::abort();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  auto const metrics = counters.read(make_hello(5));
  CHECK(find_operation(metrics, "all_reduce").calls == 4000);
  CHECK(find_operation(metrics, "all_reduce").bytes == 4 * 2 * 500500);
  CHECK(find_operation(metrics, "all_reduce").seconds == Approx(4e-3));
  CHECK(find_operation(metrics, "barrier").calls == 0);
  CHECK(metrics.last.over);
  CHECK(metrics.rank == 5);
  counters.enter(OperationKind::barrier, {"world/1.0", 9}, 0);
  CHECK_FALSE(counters.read(make_hello(0)).last.over);
  CHECK(describe_metrics(counters.read(make_hello(0))) ==
        "4001 operations, 4.0 MB, 0.004 s in them; last barrier (operation 9 on communicator 'world/1.0'), 0 "
        "bytes, not over");
}

TEST_CASE("metrics are decoded as they were encoded, and invalid bytes are rejected") {
  Counters counters;
  counters.enter(OperationKind::send, {"world", 0}, 77);
  auto const sent = counters.read(make_hello(2));
  auto const bytes = encode(sent);
  auto const received = decode_metrics(bytes);
  CHECK(received.rank == 2);
  CHECK(received.host == "n1");
  CHECK(find_operation(received, "send").bytes == 77);
  CHECK(received.operations.size() == sent.operations.size());
  CHECK(received.last.operation == "send");
  CHECK_FALSE(received.last.over);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    CHECK_THROWS_AS(decode_metrics({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)}),
                    Error);
  CHECK_THROWS_AS(decode_metrics({0xa0}), Error);
}

TEST_CASE("each rank of a job has a metrics file of its own") {
  CHECK(metrics_path("/run/muster.prom", make_hello(3), 8) == "/run/muster.3.prom");
  CHECK(metrics_path("/run/muster.prom", make_hello(0), 1) == "/run/muster.prom");
  CHECK(metrics_path("muster", make_hello(3), 8) == "muster.3");
  CHECK(metrics_path("/run/%h/%r-100%%.prom", make_hello(3), 8) == "/run/n1/3-100%.prom");
  CHECK_THROWS_AS(metrics_path("/run/%j.prom", make_hello(3), 8), Error);
  CHECK_THROWS_AS(metrics_path("/run/%", make_hello(3), 8), Error);
}

TEST_CASE("the metrics file is written at once, at each interval and at the end") {
  auto const folder = std::filesystem::temp_directory_path() / ("muster-metrics-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  auto const path = folder / "muster.prom";
  // The counters belong to the process: other tests may have counted before.
  auto const before = find_operation(counters().read(make_hello(0)), "all_reduce");
  auto const has_counter = [&](const char* counter, std::uint64_t value) {
    return has(content(path), std::string(counter) +
                                  "{rank=\"0\",host=\"n1\",gpu=\"\",operation=\"all_reduce\"} " +
                                  std::to_string(value) + "\n");
  };
  {
    MetricsFile const file(path.string(), 5ms, make_hello(0));
    CHECK(has_counter("muster_operations_total", before.calls));
    counters().enter(OperationKind::all_reduce, {"world", 1}, 12);
    counters().leave(OperationKind::all_reduce, 1);
    auto const until = std::chrono::steady_clock::now() + 20s;
    auto const counted = [&] { return has_counter("muster_operation_bytes_total", before.bytes + 12); };
    while (!counted() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
    CHECK(counted());
    counters().enter(OperationKind::all_reduce, {"world", 2}, 30);
    counters().leave(OperationKind::all_reduce, 1);
  }
  CHECK(has_counter("muster_operation_bytes_total", before.bytes + 42));
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++files;
  CHECK(files == 1);
  std::filesystem::remove_all(folder);
  CHECK_THROWS_AS(MetricsFile((folder / "muster.prom").string(), 1s, make_hello(0)), Error);
}
