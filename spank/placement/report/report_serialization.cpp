// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "placement/report/report.hpp"
#include "placement/topology/error.hpp"

namespace muster::placement {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ReportRow, local_rank, rank, gpus, cpus, memory, nics, gpu_cpu, gpu_nic,
                                   reasons)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeReport, host, rows, left_out, warnings, notes, shown, shown_reason,
                                   plan_milliseconds)

namespace {

// The library's own conversion of a number outside int has an undefined result.
void require_int(const nlohmann::json& number) {
  const bool held = number.is_number_unsigned()
                        ? std::in_range<int>(number.get<std::uint64_t>())
                        : number.is_number_integer() && std::in_range<int>(number.get<std::int64_t>());
  if (!held) throw Error("a node's report cannot be read: a rank or memory domain is not an integer");
}

void require_ints(const nlohmann::json& report) {
  for (const auto& row : report.at("rows")) {
    require_int(row.at("local_rank"));
    require_int(row.at("rank"));
    for (const auto& domain : row.at("memory")) require_int(domain);
  }
}

}  // namespace

std::string write_node_report(const NodeReport& report) {
  return nlohmann::json(report).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

NodeReport read_node_report(std::string_view text) {
  try {
    const auto report = nlohmann::json::parse(text);
    require_ints(report);
    return report.get<NodeReport>();
  } catch (const nlohmann::json::exception& error) {
    throw Error(std::string("a node's report cannot be read: ") + error.what());
  }
}

}  // namespace muster::placement
