// SPDX-License-Identifier: Apache-2.0
#include "bench/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace muster::cli::bench {
namespace {

double mean_bus(const std::vector<Row>& rows) {
  double sum = 0;
  for (const auto& row : rows) sum += row.bus;
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

}  // namespace

Row make_row(const std::vector<Sample>& samples, Operation operation) {
  Row row{samples.front().bytes, samples.front().elements, {}, 0, 0, 0};
  for (const auto& sample : samples) {
    row.times.average += sample.average / static_cast<double>(samples.size());
    row.times.median = std::max(row.times.median, sample.single.median);
    row.times.p95 = std::max(row.times.p95, sample.single.p95);
    row.times.longest = std::max(row.times.longest, sample.single.longest);
    row.wrong += sample.wrong;
  }
  row.algorithm = algorithm_bandwidth(row.bytes, row.times.average);
  row.bus = row.algorithm * bus_factor(operation, static_cast<int>(samples.size()));
  return row;
}

std::string table_head(const RunInfo& info) {
  const auto& plan = info.plan;
  return fmt::format(
             "# muster bench {}: {} rank{} on {} host{} (joined through {}), {}{} memory, {}{}\n"
             "# {} operations of each size back to back after {} to warm up; then {} one by one\n",
             to_string(plan.operation), info.ranks, info.ranks == 1 ? "" : "s", info.hosts,
             info.hosts == 1 ? "" : "s", info.bootstrap, info.backend,
             plan.gpu ? " " + info.nccl + ", GPU" : ", host", muster::name_of(plan.type),
             is_reduction(plan.operation) ? ", sum" : "", plan.iterations, plan.warmup, plan.iterations) +
         fmt::format("#{:>12} {:>12} {:>11} {:>8} {:>8} {:>11} {:>11} {:>11} {:>7}\n", "size", "elements",
                     "time", "algbw", "busbw", "median", "p95", "longest", "wrong") +
         fmt::format("#{:>12} {:>12} {:>11} {:>8} {:>8} {:>11} {:>11} {:>11} {:>7}\n", "(B)", "", "(us)",
                     "(GB/s)", "(GB/s)", "(us)", "(us)", "(us)", "");
}

std::string table_row(const Row& row, bool checked) {
  return fmt::format(" {:>12} {:>12} {:>11.2f} {:>8.3f} {:>8.3f} {:>11.2f} {:>11.2f} {:>11.2f} {:>7}\n",
                     row.bytes, row.elements, row.times.average * 1e6, row.algorithm, row.bus,
                     row.times.median * 1e6, row.times.p95 * 1e6, row.times.longest * 1e6,
                     checked ? std::to_string(row.wrong) : "-");
}

std::string table_foot(const std::vector<Row>& rows, bool checked) {
  auto const wrong = std::accumulate(rows.begin(), rows.end(), std::size_t{0},
                                     [](std::size_t sum, const Row& row) { return sum + row.wrong; });
  auto text = fmt::format("# mean bus bandwidth: {:.3f} GB/s\n", mean_bus(rows));
  if (checked) text += fmt::format("# wrong elements: {}\n", wrong);
  return text;
}

std::string json_report(const RunInfo& info, const std::vector<Row>& rows) {
  using nlohmann::ordered_json;
  const auto& plan = info.plan;
  ordered_json results = ordered_json::array();
  for (const auto& row : rows) {
    ordered_json one{{"bytes", row.bytes},
                     {"elements", row.elements},
                     {"time_us", row.times.average * 1e6},
                     {"algbw_gb_s", row.algorithm},
                     {"busbw_gb_s", row.bus},
                     {"median_us", row.times.median * 1e6},
                     {"p95_us", row.times.p95 * 1e6},
                     {"longest_us", row.times.longest * 1e6}};
    if (plan.check) one["wrong"] = row.wrong;
    results.push_back(std::move(one));
  }
  ordered_json const report{{"schema", 1},
                            {"muster", info.version},
                            {"operation", to_string(plan.operation)},
                            {"type", muster::name_of(plan.type)},
                            {"memory", plan.gpu ? "gpu" : "host"},
                            {"backend", info.backend},
                            {"nccl", info.nccl},
                            {"bootstrap", info.bootstrap},
                            {"ranks", info.ranks},
                            {"hosts", info.hosts},
                            {"iterations", plan.iterations},
                            {"warmup", plan.warmup},
                            {"mean_busbw_gb_s", mean_bus(rows)},
                            {"results", results}};
  return report.dump(2) + "\n";
}

}  // namespace muster::cli::bench
