// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <nlohmann/json.hpp>

#include "bench/report.hpp"
#include "bench/sizes.hpp"
#include "catch.hpp"

using namespace muster;
using namespace muster::cli::bench;
using Catch::Matchers::ContainsSubstring;

namespace {

RunInfo make_run_info(int ranks) {
  RunInfo info;
  info.ranks = ranks;
  info.hosts = 2;
  info.bootstrap = "pmix";
  info.backend = "open-mpi";
  info.version = "0.1.0";
  info.plan.check = true;
  return info;
}

std::vector<Row> make_rows(int ranks) {
  std::vector<Row> rows;
  for (std::size_t const bytes : sizes_between(1024, 1 << 20, 4)) {
    Sample sample;
    sample.bytes = bytes;
    sample.elements = bytes / 4;
    sample.average = 10e-6 + static_cast<double>(bytes) / 1e9;
    sample.single = {sample.average, sample.average, 2 * sample.average, 3 * sample.average};
    rows.push_back(
        make_row(std::vector<Sample>(static_cast<std::size_t>(ranks), sample), Operation::all_reduce));
  }
  return rows;
}

}  // namespace

TEST_CASE("sizes are parsed with their units, and invalid text is rejected") {
  CHECK(parse_size("4") == 4u);
  CHECK(parse_size("64K") == 65536u);
  CHECK(parse_size("1m") == 1u << 20);
  CHECK(parse_size("2G") == 2ull << 30);
  CHECK(parse_size("3MiB") == 3u << 20);
  CHECK(parse_size("8b") == 8u);
  for (const char* text :
       {"", "K", "1.5M", "-1", "1T", "1MM", "1 M", "0x10", "99999999999999999999", "99999999999G"})
    CHECK_FALSE(parse_size(text));
  CHECK(format_size(4) == "4 B");
  CHECK(format_size(65536) == "64 KiB");
  CHECK(format_size(3u << 29) == "1.5 GiB");
}

TEST_CASE("sizes go from the smallest to the largest and never overflow") {
  CHECK(sizes_between(4, 64, 2) == std::vector<std::size_t>{4, 8, 16, 32, 64});
  CHECK(sizes_between(4, 63, 4) == std::vector<std::size_t>{4, 16});
  CHECK(sizes_between(5, 5, 2) == std::vector<std::size_t>{5});
  CHECK(sizes_between(1, std::numeric_limits<std::size_t>::max(), 1024).size() == 7);
}

TEST_CASE("bus bandwidth follows nccl-tests' definition") {
  CHECK(bus_factor(Operation::all_reduce, 8) == Approx(1.75));
  CHECK(bus_factor(Operation::all_reduce, 2) == Approx(1.0));
  CHECK(bus_factor(Operation::all_gather, 8) == Approx(0.875));
  CHECK(bus_factor(Operation::reduce_scatter, 4) == Approx(0.75));
  CHECK(bus_factor(Operation::all_to_all, 4) == Approx(0.75));
  CHECK(bus_factor(Operation::broadcast, 8) == 1);
  CHECK(bus_factor(Operation::reduce, 8) == 1);
  CHECK(bus_factor(Operation::send_recv, 2) == 1);
  CHECK(bus_factor(Operation::send_recv, 8) == 1);
  CHECK(bus_factor(Operation::all_reduce, 1) == 0);
  CHECK(algorithm_bandwidth(2'000'000'000, 0.5) == Approx(4.0));
  CHECK(algorithm_bandwidth(8, 0) == 0);
}

TEST_CASE("an operation is found by its name, and by no other") {
  for (const auto& name : operation_names()) {
    REQUIRE(parse_operation(name));
    CHECK(to_string(*parse_operation(name)) == name);
  }
  CHECK(parse_operation("send_recv") == Operation::send_recv);
  CHECK_FALSE(parse_operation("sendrecv"));
}

TEST_CASE("percentiles are nearest ranks") {
  std::vector<double> times;
  for (int i = 100; i > 0; --i) times.push_back(i);
  auto const summary = summarize(times);
  CHECK(summary.average == Approx(50.5));
  CHECK(summary.median == 50);
  CHECK(summary.p95 == 95);
  CHECK(summary.longest == 100);
  CHECK(summarize({3}).p95 == 3);
  CHECK(summarize({}).longest == 0);
}

TEST_CASE("a row has the mean of the ranks' means and the slowest rank's single times") {
  std::vector<Sample> samples(2);
  samples[0].bytes = samples[1].bytes = 4'000'000;
  samples[0].average = 1e-3;
  samples[1].average = 3e-3;
  samples[0].single = {0, 5e-3, 6e-3, 7e-3};
  samples[1].single = {0, 1e-3, 9e-3, 9e-3};
  samples[1].wrong = 2;
  auto const row = make_row(samples, Operation::all_reduce);
  CHECK(row.times.average == Approx(2e-3));
  CHECK(row.algorithm == Approx(2.0));
  CHECK(row.bus == Approx(2.0));
  CHECK(row.times.median == Approx(5e-3));
  CHECK(row.times.p95 == Approx(9e-3));
  CHECK(row.wrong == 2);
}

TEST_CASE("the JSON can be parsed, and the table's head describes the run") {
  auto const rows = make_rows(4);
  auto const report = nlohmann::json::parse(json_report(make_run_info(4), rows));
  CHECK(report.at("schema") == 1);
  CHECK(report.at("operation") == "all_reduce");
  CHECK(report.at("ranks") == 4);
  REQUIRE(report.at("results").size() == rows.size());
  CHECK(report.at("results").at(0).at("bytes") == 1024);
  CHECK(report.at("results").at(0).at("busbw_gb_s").get<double>() == Approx(rows[0].bus));
  CHECK(report.at("results").at(0).at("wrong") == 0);
  CHECK_THAT(table_head(make_run_info(4)), ContainsSubstring("all_reduce: 4 ranks on 2 hosts") &&
                                               ContainsSubstring("open-mpi, host memory, float32, sum"));
  CHECK_THAT(table_row(rows[0], true), ContainsSubstring("1024"));
  CHECK_THAT(table_foot(rows, true), ContainsSubstring("wrong elements: 0"));
}

TEST_CASE("the plot has a point for each size, also for one rank or one size") {
  auto const count = [](const std::string& text, const std::string& part) {
    std::size_t found = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  auto const rows = make_rows(4);
  auto const svg = svg_report(make_run_info(4), rows);
  CHECK(svg.starts_with("<?xml "));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(count(svg, "<title>") == 2 * rows.size() + 1);
  CHECK(svg.find("nan") == std::string::npos);
  // One rank sends nothing over a bus; one size makes no line.
  auto const alone = svg_report(make_run_info(1), {make_rows(1).front()});
  CHECK(count(alone, "<title>") == 2);
  CHECK(alone.find("nan") == std::string::npos);
  CHECK(alone.find("inf") == std::string::npos);
  CHECK(svg_report(make_run_info(1), {}).ends_with("</svg>\n"));
}
