// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "placement/error.hpp"
#include "placement/report.hpp"

namespace muster::placement {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ReportRow, local_rank, rank, gpus, cpus, memory, nics, gpu_cpu, gpu_nic,
                                   reasons)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeReport, host, rows, left_out, warnings, plan_milliseconds)

std::string write_node_report(const NodeReport& report) {
  return nlohmann::json(report).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

NodeReport read_node_report(std::string_view text) {
  try {
    return nlohmann::json::parse(text).get<NodeReport>();
  } catch (const nlohmann::json::exception& error) {
    throw Error(std::string("a node's report cannot be read: ") + error.what());
  }
}

}  // namespace muster::placement
