// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.hpp"
#include "has.hpp"
#include "placement/report/report.hpp"
#include "placement/report/report_json.hpp"
#include "spank/placement/machines.hpp"

using namespace muster::placement;
using namespace muster::placement::test;

namespace {

Node machine() {
  Node node = make_node({2, 1, 4, 1});
  add_gpu(node, 1, 0x10);
  add_gpu(node, 0, 0x80);
  add_nic(node, "mlx5_0", 1, 0x20, 0x10);
  return node;
}

Placement plan(const Node& node) {
  Request request;
  request.tasks = 2;
  request.gpus = addresses(node);
  return place(node, request);
}

}  // namespace

namespace {

std::vector<std::string> split_lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The report of node `index` of several equal nodes with two tasks each.
NodeReport make_report(int index, const Node& node = machine()) {
  NodeReport report = node_report(node, plan(node), {2 * index, 2 * index + 1}, 0.25 * (index + 1));
  report.host = "n" + std::to_string(index);
  return report;
}

int count_occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("The table's entries are aligned with their titles") {
  const auto lines = split_lines(report_table(node_report(machine(), plan(machine())), false));
  REQUIRE(lines.size() == 4);
  CHECK(lines[3] == "legend: PIX one PCI switch, NODE one NUMA domain, SYS between NUMA domains");
  for (const char* title : {"GPU", "CPUs", "memory", "NIC", "GPU-CPU", "GPU-NIC"}) {
    const auto column = lines[0].find(title);
    REQUIRE(column != std::string::npos);
    for (const auto& line : {lines[0], lines[1], lines[2]}) {
      REQUIRE(line.size() > column);
      CHECK(line[column] != ' ');
      CHECK(line[column - 1] == ' ');
      CHECK(line[column - 2] == ' ');
    }
  }
  CHECK(lines[1].starts_with("0 "));
  CHECK_THAT(lines[1], Catch::Matchers::ContainsSubstring("0000:10:00.0") &&
                           Catch::Matchers::ContainsSubstring("NODE") && Catch::Matchers::EndsWith("PIX"));
}

TEST_CASE("Reasons are printed only on request, and once for tasks with the same ones") {
  NodeReport report = node_report(machine(), plan(machine()));
  report.rows[0].reasons = {"because", "mlx5_0 PIX from the GPU", "both"};
  report.rows[1].reasons = {"because", "mlx5_1 PIX from the GPU", "also here", "both"};
  CHECK(count_occurrences(report_table(report, false), "because") == 0);
  CHECK(
      report_table(report, true)
          .ends_with("ranks 0-1: because\nrank 0: mlx5_0 PIX from the GPU\nrank 1: mlx5_1 PIX from the GPU\n"
                     "ranks 0-1: both\nrank 1: also here\n"));
}

TEST_CASE("NICs that are left out are listed with the reason, and warnings with the host") {
  Node node = machine();
  add_nic(node, "mlx5_7", 1, 0x30, 0x10);
  node.nics.back().usable = false;
  node.nics.back().reason = "port is not active";
  Placement placement = plan(node);
  placement.warnings = {"too few"};
  node.host = "n1";
  const auto text = report_table(node_report(node, placement), false);
  CHECK(count_occurrences(text, "left out: NIC mlx5_7:1: port is not active\n") == 1);
  CHECK(text.ends_with("muster: n1: too few\n"));
}

TEST_CASE("Nodes with the same placement are one block of a step's report, in any order of arrival") {
  const std::vector<NodeReport> reports = {make_report(2), make_report(0), make_report(1)};
  const auto text = merge_reports(reports, 3, false);
  const auto lines = split_lines(text);
  REQUIRE(lines.size() == 5);
  CHECK_THAT(lines[0], Catch::Matchers::ContainsSubstring("6 tasks on 3 nodes, planned in 0.8 ms"));
  CHECK(lines[1] == "n[0-2]: 3 nodes alike, ranks 0-5");
  CHECK_THAT(lines[3], Catch::Matchers::StartsWith("0           0,2,4  0000:10:00.0  4-7"));
  CHECK_THAT(lines[4], Catch::Matchers::StartsWith("1           1,3,5  "));
  CHECK(merge_reports({reports[1], reports[2], reports[0]}, 3, false) == text);
}

TEST_CASE("A node that differs has a block of its own, and warnings and notes name their nodes") {
  std::vector<NodeReport> reports = {make_report(0), make_report(1), make_report(2)};
  reports[1].rows[1].cpus = "0";
  reports[0].warnings = reports[2].warnings = {"odd"};
  reports[0].notes = reports[1].notes = {"2 of 8 cores idle"};
  const auto text = merge_reports(reports, 3, false);
  CHECK(count_occurrences(text, "n[0,2]: 2 nodes alike, ranks 0-1,4-5\n") == 1);
  CHECK(count_occurrences(text, "n1: ranks 2-3\n") == 1);
  CHECK(text.find("n[0,2]") < text.find("n1:"));
  CHECK(count_occurrences(text, "muster: n[0,2]: odd\n") == 1);
  CHECK(count_occurrences(text, "note: n[0-1]: 2 of 8 cores idle\n") == 1);
  for (const auto& change : std::vector<void (*)(ReportRow&)>{
           [](ReportRow& row) { row.gpus = {"0000:99:00.0"}; }, [](ReportRow& row) { row.memory = {7}; },
           [](ReportRow& row) { row.nics = {"other:1"}; }}) {
    auto changed = make_report(1);
    change(changed.rows[0]);
    CHECK(count_occurrences(merge_reports({make_report(0), changed}, 2, false), "alike") == 0);
  }
}

TEST_CASE("Nodes that differ only in their reasons are one block unless the reasons are shown") {
  auto other = make_report(1);
  other.rows[0].reasons = {"another"};
  CHECK(count_occurrences(merge_reports({make_report(0), other}, 2, false), "alike") == 1);
  const auto explained = merge_reports({make_report(0), other}, 2, true);
  CHECK(count_occurrences(explained, "alike") == 0);
  CHECK(count_occurrences(explained, "another") == 1);
}

TEST_CASE("A step's report counts missing nodes, and shortens long lists of ranks") {
  std::vector<NodeReport> reports;
  for (int i = 0; i < 16; ++i) reports.push_back(make_report(i));
  const auto text = merge_reports(reports, 18, false);
  CHECK(count_occurrences(text, "2 nodes of the step did not report here in time") == 1);
  CHECK(count_occurrences(text, "n[0-15]: 16 nodes alike, ranks 0-31\n") == 1);
  CHECK(count_occurrences(text, "0,2,...,30") == 1);
  NodeReport single = make_report(0);
  single.rows.resize(1);
  CHECK(count_occurrences(merge_reports({single}, 1, false), "n0: rank 0\n") == 1);
}

TEST_CASE("A node's report can be serialized and parsed, and invalid text is refused") {
  auto report = make_report(3);
  report.left_out = {"mlx5_9:1: \"down\""};
  const auto back = read_node_report(write_node_report(report));
  CHECK(merge_reports({back}, 1, true) == merge_reports({report}, 1, true));
  CHECK(back.left_out == report.left_out);
  for (const char* text : {"", "{}", "[]", "{\"host\":1}", "\xff"})
    CHECK_THROWS_AS(read_node_report(text), Error);
  // A rank outside int.
  for (const char* rank : {"8e41", "2147483648", "-2147483649", "18446744073709551615", "\"3\""}) {
    auto text = write_node_report(report);
    auto const at = text.find("\"rank\":") + 7;
    text.replace(at, text.find_first_of(",}", at) - at, rank);
    CHECK_THROWS_AS(read_node_report(text), Error);
  }
}

TEST_CASE("The JSON has the documented fields") {
  const Node node = machine();
  const auto json = nlohmann::json::parse(report_json(node, plan(node), {{{"A", "1", "because"}}}));
  CHECK(json.at("schema") == 1);
  CHECK(json.at("node").at("source") == "synthetic");
  CHECK(json.at("node").at("cpus") == "0-7");
  CHECK(json.at("node").at("numa").at(1).at("id") == 1);
  CHECK(json.at("node").at("numa").at(1).at("cpus") == "4-7");
  CHECK(json.at("node").at("numa").at(1).at("memory_bytes") == 1 << 30);
  CHECK(json.at("node").at("gpus").at(0).at("pci") == "0000:10:00.0");
  CHECK(json.at("node").at("gpus").at(0).at("numa") == 1);
  CHECK(json.at("node").at("gpus").at(0).contains("model"));
  CHECK(json.at("node").at("nics").at(0).at("name") == "mlx5_0");
  CHECK(json.at("node").at("nics").at(0).at("usable") == true);
  const auto& task = json.at("tasks").at(0);
  CHECK(task.at("local_rank") == 0);
  CHECK(task.at("gpus") == nlohmann::json{"0000:10:00.0"});
  CHECK(task.at("cpus") == "4-7");
  CHECK(task.at("memory") == nlohmann::json{1});
  CHECK(task.at("nics") == nlohmann::json{"mlx5_0"});
  CHECK(task.at("gpu_cpu") == "NODE");
  CHECK(task.at("gpu_nic") == "PIX");
  CHECK(task.at("environment").at("A") == "1");
  CHECK(task.at("reasons").size() == 3);
}

TEST_CASE("Names that are not UTF-8 do not break the JSON") {
  Node node = machine();
  node.gpus[0].model = "bad \xff name";
  CHECK(nlohmann::json::parse(report_json(node, plan(node), {})).is_object());
}

TEST_CASE("No text of a report reaches the terminal as a control sequence or splits a line") {
  const std::string evil = "x\x1b[2J\n\x9b\xc2\x9b";
  ReportRow row;
  row.gpus = row.nics = row.reasons = {evil};
  row.cpus = row.gpu_cpu = row.gpu_nic = evil;
  NodeReport report;
  report.host = report.shown = report.shown_reason = evil;
  report.rows = {row};
  report.left_out = report.warnings = {evil};
  for (const std::string& text : {report_table(report, true), merge_reports({report}, 1, true)}) {
    const auto lines = std::count(text.begin(), text.end(), '\n');
    CHECK(std::count_if(text.begin(), text.end(),
                        [](char c) { return static_cast<unsigned char>(c) < ' '; }) == lines);
    CHECK_FALSE(has(text, "\x9b"));
    CHECK(has(text, "x?[2J????"));
  }
}
