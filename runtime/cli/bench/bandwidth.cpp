// SPDX-License-Identifier: Apache-2.0
#include "bench/bandwidth.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace muster::cli::bench {
namespace {

constexpr std::array<std::pair<Operation, const char*>, 7> operations{
    {{Operation::all_reduce, "all_reduce"},
     {Operation::all_gather, "all_gather"},
     {Operation::reduce_scatter, "reduce_scatter"},
     {Operation::broadcast, "broadcast"},
     {Operation::reduce, "reduce"},
     {Operation::all_to_all, "all_to_all"},
     {Operation::send_recv, "send_recv"}}};

double percentile(const std::vector<double>& sorted, int percent) {
  auto const rank = (sorted.size() * static_cast<std::size_t>(percent) + 99) / 100;
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

}  // namespace

std::optional<Operation> parse_operation(std::string_view name) {
  for (const auto& [operation, its_name] : operations)
    if (name == its_name) return operation;
  return std::nullopt;
}

const char* to_string(Operation operation) {
  for (const auto& [one, name] : operations)
    if (one == operation) return name;
  return "?";
}

bool is_reduction(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter ||
         operation == Operation::reduce;
}

std::vector<std::string> operation_names() {
  std::vector<std::string> all;
  for (const auto& [operation, name] : operations) all.emplace_back(name);
  return all;
}

double algorithm_bandwidth(std::size_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0;
}

double bus_factor(Operation operation, int ranks) {
  double const n = ranks;
  switch (operation) {
    case Operation::all_reduce:
      return 2 * (n - 1) / n;
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::all_to_all:
      return (n - 1) / n;
    case Operation::broadcast:
    case Operation::reduce:
    case Operation::send_recv:
      return 1;
  }
  return 0;
}

Times summarize(std::vector<double> seconds) {
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  auto const sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return {sum / static_cast<double>(seconds.size()), percentile(seconds, 50), percentile(seconds, 95),
          seconds.back()};
}

}  // namespace muster::cli::bench
