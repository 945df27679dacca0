// SPDX-License-Identifier: Apache-2.0
// Placements as people read them: the table of one node and the report of a whole step. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "placement/place/place.hpp"
#include "placement/topology/node.hpp"

namespace muster::placement {

/// One task as a line of a table.
struct ReportRow {
  int local_rank = 0;
  int rank = 0;
  std::vector<std::string> gpus;  ///< PCI addresses; of a MIG instance its parent's and "/MIG"
  std::string cpus;               ///< CpuSet::to_short_list()
  std::vector<int> memory;        ///< preferred NUMA domains, the best first
  std::vector<std::string> nics;  ///< "mlx5_0:1"
  std::string gpu_cpu;            ///< a Distance in words
  std::string gpu_nic;
  std::vector<std::string> reasons;  ///< one line each
};

/// What one node says about its share of a step.
struct NodeReport {
  std::string host;  ///< empty: unknown
  std::vector<ReportRow> rows;
  std::vector<std::string> left_out;  ///< "mlx5_0:1, mlx5_3:1: port is not active", one line for each reason
  std::vector<std::string> warnings;  ///< one line each
  std::vector<std::string> notes;     ///< nothing wrong but good to know; one line each
  std::string shown;                  ///< which GPUs CUDA shows each task, in words; empty: not known
  std::string shown_reason;           ///< why
  double plan_milliseconds = 0;
};

/// ranks[i] is the rank of local task i in the step; empty: local ranks stand for ranks.
NodeReport node_report(const Node& node, const Placement& placement, const std::vector<int>& ranks = {},
                       double plan_milliseconds = 0);

/// The table of `muster plan`: one line for each task under a line of titles, then what the distances in it
/// mean, the NICs that are left out, the notes and the warnings ("muster: HOST: …"); with `explain` the
/// reasons as well. Columns are as wide as their longest entry. What a terminal would obey, here and in
/// merge_reports(), is replaced (base/text/printable.hpp).
std::string report_table(NodeReport report, bool explain);

/// The report of a step from those of its nodes, in any order: a heading, then one block for each set of
/// nodes whose local ranks have the same GPUs, CPUs, memory and NICs, the one with the lowest rank first.
/// expected: nodes of the step; where fewer reported, the heading says so. Ends in a newline.
std::string merge_reports(std::vector<NodeReport> reports, int expected, bool explain);

/// A node's report on its way to the others' (not an interface: both ends are of one build).
std::string write_node_report(const NodeReport& report);
/// Throws Error when text is not what write_node_report() gives.
NodeReport read_node_report(std::string_view text);

}  // namespace muster::placement
