// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.hpp"
#include "machines.hpp"
#include "placement/report.hpp"

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

TEST_CASE("Table blocks of several nodes line up") {
  const Node node = machine();
  std::istringstream text(report_header() + report_rows("n1", plan(node), {0, 1}) +
                          report_rows("a-longer-name", plan(node), {2, 3}));
  std::string header, line;
  std::getline(text, header);
  std::vector<std::string> ranks;
  while (std::getline(text, line)) {
    ranks.push_back(line.substr(0, line.find(' ')));
    for (const char* title : {"GPU", "cores", "memory", "NIC", "why"}) {
      const auto column = header.find(title);
      REQUIRE(line.size() > column);
      CHECK(line[column] != ' ');
      CHECK(line[column - 1] == ' ');
    }
  }
  CHECK(ranks == std::vector<std::string>{"0", "1", "2", "3"});
}

TEST_CASE("Warnings follow the rows and name the host") {
  Placement placement = plan(machine());
  placement.warnings = {"too few"};
  const auto block = report_rows("n1", placement);
  CHECK(block.ends_with("muster: n1: too few\n"));
}

TEST_CASE("The JSON has the documented shape") {
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
  CHECK_NOTHROW(nlohmann::json::parse(report_json(node, plan(node), {})));
}
