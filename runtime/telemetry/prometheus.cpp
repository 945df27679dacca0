// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <functional>
#include <iterator>

#include "muster/metrics.hpp"

namespace muster {
namespace {

// Escapes a label's value: backslash, quote and line feed (exposition format, "Comments, help text, and
// type information").
std::string escaped(const std::string& value) {
  std::string text;
  for (char const c : value) {
    if (c == '\\' || c == '"') text += '\\';
    if (c == '\n') {
      text += "\\n";
    } else {
      text += c;
    }
  }
  return text;
}

std::string format_labels(const RankMetrics& metrics) {
  return fmt::format("rank=\"{}\",host=\"{}\",gpu=\"{}\"", metrics.rank, escaped(metrics.host),
                     escaped(metrics.gpu));
}

class Page {
 public:
  void family(const char* name, const char* type, const char* help) {
    name_ = name;
    fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  template <typename Value>
  void sample(const std::string& labels, Value value) {
    fmt::format_to(std::back_inserter(text_), "{}{{{}}} {}\n", name_, labels, value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string name_;
  std::string text_;
};

template <typename Value>
void add_counters(Page& page, const std::vector<RankMetrics>& ranks, Value RankMetrics::Operation::*value) {
  for (const auto& metrics : ranks) {
    auto const labels = format_labels(metrics);
    for (const auto& one : metrics.operations)
      page.sample(fmt::format("{},operation=\"{}\"", labels, escaped(one.operation)), one.*value);
  }
}

template <typename Value>
void add_last_operation(Page& page, const std::vector<RankMetrics>& ranks, const Value& value) {
  for (const auto& metrics : ranks) {
    if (metrics.last.operation.empty()) continue;
    page.sample(fmt::format("{},operation=\"{}\",communicator=\"{}\"", format_labels(metrics),
                            escaped(metrics.last.operation), escaped(metrics.last.communicator)),
                value(metrics.last));
  }
}

}  // namespace

std::string prometheus_text(const std::vector<RankMetrics>& ranks) {
  using Operation = RankMetrics::Operation;
  Page page;
  page.family("muster_operations_total", "counter", "Calls of a communicator's operations.");
  add_counters(page, ranks, &Operation::calls);
  page.family("muster_operation_bytes_total", "counter", "Bytes that the rank put into operations.");
  add_counters(page, ranks, &Operation::bytes);
  page.family("muster_operation_seconds_total", "counter",
              "Time in calls of operations; on NCCL a call only enqueues and synchronize waits.");
  add_counters(page, ranks, &Operation::seconds);
  page.family("muster_last_operation_number", "gauge", "Number of the last operation in its communicator.");
  add_last_operation(page, ranks, [](const RankMetrics::Last& last) { return last.number; });
  page.family("muster_last_operation_bytes", "gauge", "Bytes that the rank put into its last operation.");
  add_last_operation(page, ranks, [](const RankMetrics::Last& last) { return last.bytes; });
  page.family("muster_in_operation", "gauge", "1 while the rank is in an operation, 0 otherwise.");
  for (const auto& metrics : ranks) page.sample(format_labels(metrics), metrics.last.over ? 0 : 1);
  return page.take();
}

}  // namespace muster
