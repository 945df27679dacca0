// SPDX-License-Identifier: Apache-2.0
#include "placement/report/report_json.hpp"

#include <nlohmann/json.hpp>

namespace muster::placement {

namespace {

using Json = nlohmann::ordered_json;

Json or_null(int number) { return number < 0 ? Json(nullptr) : Json(number); }
Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json node_json(const Node& node) {
  Json json = {{"source", node.source}, {"host", or_null(node.host)}, {"cpus", node.cpus().to_list()},
               {"numa", Json::array()}, {"gpus", Json::array()},      {"nics", Json::array()},
               {"notes", node.notes}};
  for (const auto& domain : node.domains) {
    json["numa"].push_back(
        {{"id", domain.id},
         {"cpus", domain.cpus.to_list()},
         {"memory_bytes", domain.memory_bytes ? Json(*domain.memory_bytes) : Json(nullptr)},
         {"gpu_memory", domain.gpu_memory}});
  }
  for (const auto& gpu : node.gpus) {
    json["gpus"].push_back({{"pci", gpu.pci.to_string()},
                            {"numa", or_null(gpu.domain)},
                            {"model", or_null(gpu.model)},
                            {"uuid", or_null(gpu.uuid)}});
  }
  for (const auto& nic : node.nics) {
    json["nics"].push_back({{"name", nic.label()},
                            {"port", nic.port},
                            {"pci", nic.pci ? Json(nic.pci->to_string()) : Json(nullptr)},
                            {"numa", or_null(nic.domain)},
                            {"usable", nic.usable},
                            {"reason", nic.reason}});
  }
  return json;
}

Json task_json(const TaskPlacement& task, const std::vector<Variable>* variables) {
  Json json = {{"local_rank", task.local_rank},
               {"gpus", Json::array()},
               {"gpu_uuids", Json::array()},
               {"cpus", task.cpus.to_list()},
               {"memory", task.memory},
               {"nics", Json::array()},
               {"gpu_cpu", to_string(task.gpu_cpu)},
               {"gpu_nic", to_string(task.gpu_nic)},
               {"environment", Json::object()},
               {"reasons", task.reasons}};
  for (const auto& gpu : task.gpus) {
    json["gpus"].push_back(gpu.pci.to_string());
    json["gpu_uuids"].push_back(or_null(gpu.uuid));
  }
  for (const auto& nic : task.nics) {  // a device once, however many of its ports the task uses
    if (json["nics"].empty() || json["nics"].back() != nic.label) json["nics"].push_back(nic.label);
  }
  if (variables == nullptr) return json;
  for (const auto& variable : *variables) json["environment"][variable.name] = variable.value;
  return json;
}

}  // namespace

std::string report_json(const Node& node, const Placement& placement,
                        const std::vector<std::vector<Variable>>& environments) {
  Json json = {{"schema", 1},
               {"node", node_json(node)},
               {"tasks", Json::array()},
               {"notes", placement.notes},
               {"warnings", placement.warnings}};
  for (std::size_t i = 0; i < placement.tasks.size(); ++i) {
    json["tasks"].push_back(
        task_json(placement.tasks[i], i < environments.size() ? &environments[i] : nullptr));
  }
  // A topology file may hold names that are not UTF-8: invalid bytes become the replacement character.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace muster::placement
