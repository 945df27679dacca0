// SPDX-License-Identifier: Apache-2.0
// The event log of a process's threads, and the trace made of it.
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "soon.hpp"
#include "telemetry/chrome_trace.hpp"

using namespace muster;
using namespace muster::observe;

namespace {

Hello rank_3() {
  Hello hello;
  hello.rank = 3;
  hello.host = "node\"1";
  hello.gpu = "0000:3b:00.0";
  return hello;
}

std::string whole_text(TraceText text, std::size_t piece) {
  std::string all = "[";
  for (auto part = text.next(piece); !part.empty(); part = text.next(piece)) all += part;
  return all.substr(0, all.rfind(',')) + "]";
}

nlohmann::json parse_trace(const EventLog& log, const std::vector<ClockMark>& marks = {},
                           std::size_t piece = 1000) {
  return nlohmann::json::parse(whole_text(TraceText(log, rank_3(), marks), piece));
}

std::vector<nlohmann::json> find_spans(const nlohmann::json& trace) {
  std::vector<nlohmann::json> spans;
  for (const auto& event : trace)
    if (event.at("ph") == "X") spans.push_back(event);
  return spans;
}

nlohmann::json metadata(const nlohmann::json& trace, const std::string& name) {
  for (const auto& event : trace)
    if (event.at("name") == name) return event.at("args");
  return nullptr;
}

ClockMark mark(std::int64_t at, std::int64_t offset, std::int64_t round_trip) {
  return {
      at,
      {std::chrono::nanoseconds(0), std::chrono::nanoseconds(offset), std::chrono::nanoseconds(round_trip)}};
}

constexpr std::int64_t second = 1'000'000'000;

}  // namespace

TEST_CASE("an event log that is off records nothing") {
  EventLog log;
  CHECK_FALSE(log.begin(Category::user, "before"));
  log.start();
  REQUIRE(log.begin(Category::user, "during"));
  log.end();
  log.freeze();
  CHECK_FALSE(log.begin(Category::user, "after"));
  auto const events = log.read(0, 0, 100);
  REQUIRE(events.size() == 1);
  CHECK(events[0].name() == "during");
  CHECK(events[0].end >= events[0].begin);
}

TEST_CASE("spans nest, and spans that are open when the log is frozen are marked as unfinished") {
  EventLog log;
  log.start();
  log.begin(Category::user, "outer");
  log.begin(Category::operation, "all_reduce", "world", 7, 4096);
  log.end();
  log.begin(Category::user, "inner \"quoted\" \xff");
  log.freeze();
  log.end();  // too late
  auto const spans = find_spans(parse_trace(log));
  REQUIRE(spans.size() == 3);
  std::map<std::string, nlohmann::json> by_name;
  for (const auto& span : spans) by_name[span.at("name")] = span;
  auto const& reduce = by_name.at("all_reduce");
  CHECK(reduce.at("args") == nlohmann::json{{"communicator", "world"}, {"number", 7}, {"bytes", 4096}});
  CHECK(reduce.at("cat") == "operation");
  CHECK(by_name.at("outer").at("args").at("unfinished") == true);
  CHECK(by_name.contains("inner \"quoted\" \xEF\xBF\xBD"));
  auto const begin = [](const nlohmann::json& span) { return span.at("ts").get<double>(); };
  auto const end = [&](const nlohmann::json& span) { return begin(span) + span.at("dur").get<double>(); };
  CHECK(begin(by_name.at("outer")) <= begin(reduce));
  CHECK(end(reduce) <= end(by_name.at("outer")));
  CHECK(reduce.at("pid") == 3);
}

TEST_CASE("a bucket's span has its number, from 0 on, and its bytes") {
  EventLog log;
  log.start();
  log.begin(Category::bucket, "bucket", "world/0.1", 0, 400);
  log.end();
  log.freeze();
  auto const spans = find_spans(parse_trace(log));
  REQUIRE(spans.size() == 1);
  CHECK(spans[0].at("cat") == "bucket");
  CHECK(spans[0].at("args") == nlohmann::json{{"communicator", "world/0.1"}, {"bucket", 0}, {"bytes", 400}});
}

TEST_CASE("a full log drops a thread's oldest events and counts them") {
  EventLog log(2);
  log.start();
  constexpr std::size_t kept_events = 2 * EventLog::chunk_events;
  for (std::size_t i = 0; i < kept_events + 100; ++i) {
    log.begin(Category::user, std::to_string(i));
    log.end();
  }
  std::thread([&] {
    log.begin(Category::user, "no memory is left for this thread");
    log.end();
  }).join();
  log.freeze();
  auto const threads = log.threads();
  REQUIRE(threads.size() == 2);
  CHECK(threads[0].dropped == 100);
  CHECK(threads[1].dropped == 1);
  auto const trace = parse_trace(log, {}, 100);
  auto const spans = find_spans(trace);
  REQUIRE(spans.size() == kept_events);
  CHECK(spans.front().at("name") == "100");
  CHECK(spans.back().at("name") == std::to_string(kept_events + 99));
  CHECK(metadata(trace, "muster_rank").at("dropped") == 101);
  CHECK(metadata(trace, "process_labels").at("labels") == "101 oldest events dropped");
  CHECK(metadata(trace, "process_name").at("name") == "rank 3 (host node\"1, GPU 0000:3b:00.0)");
}

TEST_CASE("spans beyond the maximum depth are counted as dropped, and outer spans still end correctly") {
  EventLog log;
  log.start();
  std::vector<bool> began;
  for (int i = 0; i < EventLog::max_depth + 5; ++i)
    began.push_back(log.begin(Category::user, std::to_string(i)));
  for (int i = EventLog::max_depth + 4; i >= 0; --i)
    if (began[static_cast<std::size_t>(i)]) log.end();
  log.freeze();
  CHECK(log.threads()[0].dropped == 5);
  CHECK(log.read(0, 0, 1000).size() == EventLog::max_depth);
  CHECK(log.threads()[0].open.empty());
}

TEST_CASE("when a log is frozen while threads write, the events read are complete") {
  EventLog log(4);
  log.start();
  std::atomic<bool> over{false};
  std::atomic<int> writing{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::uint64_t number = 0;
      while (!over) {
        ++number;
        if (log.begin(Category::operation, std::to_string(t) + "." + std::to_string(number), nullptr, number))
          log.end();
        if (number != 1000) continue;
        // No thread goes on before each has its chunk: the freeze leaves out a thread that is writing.
        for (++writing; writing < 4 && !over;) std::this_thread::yield();
      }
    });
  }
  auto const limit = std::chrono::steady_clock::now() + soon;
  while (writing < 4 && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  log.freeze();
  std::size_t events = 0;
  for (const auto& thread : log.threads()) {
    auto const read = log.read(thread.number, 0, 1u << 20);
    events += read.size();
    for (std::size_t i = 0; i < read.size(); ++i) {
      auto const name = std::string(read[i].name());
      CHECK(name.substr(name.find('.') + 1) == std::to_string(read[i].number));
      if (i > 0) CHECK(read[i].number == read[i - 1].number + 1);
    }
  }
  over = true;
  for (auto& thread : threads) thread.join();
  CHECK(events > 0);
  CHECK(events <= 4 * EventLog::chunk_events);
}

TEST_CASE("phases are recorded before the log starts") {
  EventLog log;
  log.add_phase("join", 5000, 9000);
  log.start();
  log.freeze();
  auto const spans = find_spans(parse_trace(log, {mark(0, 1'000'000, 10)}));
  REQUIRE(spans.size() == 1);
  CHECK(spans[0].at("ts") == 1005.0);
  CHECK(spans[0].at("dur") == 4.0);
  CHECK(spans[0].at("cat") == "phase");
}

TEST_CASE("a drifting clock is corrected linearly between two marks") {
  // Fast by 50 parts per million, and 3 s behind.
  auto const rank_0_time = [](std::int64_t at) { return at + 3 * second - at / 20000; };
  auto const at = [&](std::int64_t when) { return mark(when, rank_0_time(when) - when, 1000); };
  ClockMap const map({at(100 * second), at(3700 * second)});
  for (std::int64_t when = 100 * second; when <= 3700 * second; when += 90 * second)
    CHECK(std::abs(map.to_rank_0(when) - rank_0_time(when)) <= 10);
  // Outside the marks, the nearest mark's offset applies.
  CHECK(map.to_rank_0(0) == rank_0_time(100 * second) - 100 * second);
}

TEST_CASE("of two marks close to each other the more certain one counts, and time never goes back") {
  ClockMap const map({mark(second, 70'000, 200'000), mark(2 * second, 10'000, 20'000)});
  CHECK(map.to_rank_0(second) == second + 10'000);
  ClockMap const first({mark(second, 70'000, 100), mark(2 * second, 10'000, 20'000)});
  CHECK(first.to_rank_0(5 * second) == 5 * second + 70'000);
  CHECK(ClockMap().to_rank_0(42) == 42);
  // The clock stood still for an hour between the marks.
  ClockMap const suspended({mark(0, 0, 100), mark(20 * second, -3600 * second, 100)});
  std::int64_t last = suspended.to_rank_0(0);
  for (std::int64_t when = second; when < 30 * second; when += second) {
    CHECK(suspended.to_rank_0(when) > last);
    last = suspended.to_rank_0(when);
  }
}
