// SPDX-License-Identifier: Apache-2.0
#include "telemetry/chrome_trace.hpp"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

namespace muster::observe {
namespace {

constexpr std::int64_t min_mark_distance = 10'000'000'000;  // 10 s
constexpr std::size_t events_at_once = 512;

// Bytes that are not UTF-8, as where a long name was cut, become U+FFFD.
std::string json_text(std::string_view text) {
  using nlohmann::json;
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

const char* to_string(Category category) {
  switch (category) {
    case Category::phase:
      return "phase";
    case Category::operation:
      return "operation";
    case Category::bucket:
      return "bucket";
    case Category::user:
      return "user";
  }
  return "";
}

// The format's unit is the microsecond; three decimals keep the nanoseconds.
std::string microseconds(std::int64_t ns) {
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

}  // namespace

ClockMap::ClockMap(const std::vector<ClockMark>& marks) {
  if (marks.empty()) return;
  first_ = marks.front();
  const ClockMark& last = marks.back();
  if (last.at - first_.at < min_mark_distance) {
    if (last.offset.round_trip < first_.offset.round_trip) first_ = last;
    return;
  }
  span_ = last.at - first_.at;
  drift_ =
      static_cast<double>((last.offset.steady - first_.offset.steady).count()) / static_cast<double>(span_);
  // No oscillator is off by so much. One host was suspended, so interpolation between the marks is wrong.
  if (std::abs(drift_) >= 0.5) drift_ = 0;
}

std::int64_t ClockMap::to_rank_0(std::int64_t at) const {
  auto const since = std::clamp<std::int64_t>(at - first_.at, 0, span_);
  return at + first_.offset.steady.count() + static_cast<std::int64_t>(drift_ * static_cast<double>(since));
}

TraceText::TraceText(const EventLog& log, const Hello& self, const std::vector<ClockMark>& marks)
    : log_(log), self_(self), marks_(marks), clock_(marks), frozen_at_(now()), threads_(log.threads()) {
  // The joining thread's phases need a thread even when it recorded nothing else.
  if (threads_.empty()) threads_.push_back({0, "main thread", 0, {}});
}

void TraceText::describe(std::string& text) const {
  std::uint64_t dropped = 0;
  for (const auto& thread : threads_) dropped += thread.dropped;
  auto name = fmt::format("rank {} (host {}", self_.rank, self_.host);
  if (!self_.gpu.empty()) name += ", GPU " + self_.gpu;
  const control::ClockOffset offset = marks_.empty() ? control::ClockOffset{} : marks_.back().offset;
  auto const metadata = [&](const char* what, const std::string& arguments) {
    fmt::format_to(std::back_inserter(text),
                   "{{\"ph\":\"M\",\"pid\":{},\"tid\":0,\"name\":\"{}\",\"args\":{{{}}}}},\n", self_.rank,
                   what, arguments);
  };
  metadata("process_name", "\"name\":" + json_text(name + ")"));
  metadata("process_sort_index", fmt::format("\"sort_index\":{}", self_.rank));
  if (dropped > 0)
    metadata("process_labels", fmt::format("\"labels\":\"{} oldest events dropped\"", dropped));
  // Muster's own metadata, which viewers ignore.
  metadata(
      "muster_rank",
      fmt::format("\"dropped\":{},\"clock_measured\":{},\"clock_offset_ns\":{},\"clock_round_trip_ns\":{}",
                  dropped, self_.rank == 0 || !marks_.empty(), offset.steady.count(),
                  offset.round_trip.count()));
}

void TraceText::describe(std::string& text, const EventLog::Thread& thread) const {
  fmt::format_to(
      std::back_inserter(text),
      "{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":{}}}}},\n",
      self_.rank, thread.number, json_text(thread.name));
  for (const auto& event : thread.open) write(text, event, thread.number, frozen_at_, true);
}

void TraceText::write(std::string& text, const Event& event, int thread, std::int64_t end, bool open) const {
  auto const begin = clock_.to_rank_0(event.begin);
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"cat\":\"{}\",\"name\":{}",
                 self_.rank, thread, microseconds(begin), microseconds(clock_.to_rank_0(end) - begin),
                 to_string(event.category), json_text(event.name()));
  std::string arguments;
  auto const add = [&](const char* name, const std::string& value) {
    fmt::format_to(std::back_inserter(arguments), "{}\"{}\":{}", arguments.empty() ? "" : ",", name, value);
  };
  if (event.communicator != nullptr) add("communicator", json_text(event.communicator));
  if (event.category == Category::bucket) {
    add("bucket", std::to_string(event.number));
  } else if (event.number != 0) {
    add("number", std::to_string(event.number));
  }
  if (event.bytes != 0) add("bytes", std::to_string(event.bytes));
  if (open) add("unfinished", "true");
  if (!arguments.empty()) fmt::format_to(out, ",\"args\":{{{}}}", arguments);
  text += "},\n";
}

std::string TraceText::next(std::size_t bytes) {
  std::string text;
  if (!described_) {
    described_ = true;
    describe(text);
    for (const auto& phase : log_.phases()) write(text, phase, 0, phase.end, false);
    for (const auto& thread : threads_) describe(text, thread);
  }
  while (text.size() < bytes && thread_ < threads_.size()) {
    auto const events = log_.read(threads_[thread_].number, event_, events_at_once);
    for (const auto& event : events) write(text, event, threads_[thread_].number, event.end, false);
    event_ += events.size();
    if (events.empty()) {
      ++thread_;
      event_ = 0;
    }
  }
  return text;
}

}  // namespace muster::observe
