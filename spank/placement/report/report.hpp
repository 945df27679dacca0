// SPDX-License-Identifier: Apache-2.0
// Placements as text: the table of one node and the report of a whole step. Pure.
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
  std::vector<std::string> gpus;  ///< PCI addresses; for a MIG instance its parent's and "/MIG"
  std::string cpus;               ///< CpuSet::to_short_list()
  std::vector<int> memory;        ///< preferred NUMA domains, the best first
  std::vector<std::string> nics;  ///< "mlx5_0:1"
  std::string gpu_cpu;            ///< a Distance as text
  std::string gpu_nic;
  std::vector<std::string> reasons;  ///< one line each
};

/// One node's part of a step's report.
struct NodeReport {
  std::string host;  ///< empty: unknown
  std::vector<ReportRow> rows;
  std::vector<std::string> left_out;  ///< "mlx5_0:1, mlx5_3:1: port is not active", one line for each reason
  std::vector<std::string> warnings;  ///< one line each
  std::vector<std::string> notes;     ///< information that is no warning; one line each
  std::string shown;                  ///< which GPUs CUDA shows each task, for display; empty: unknown
  std::string shown_reason;           ///< why
  double plan_milliseconds = 0;
};

/// ranks[i] is the rank of local task i in the step; empty: ranks are the local ranks.
NodeReport node_report(const Node& node, const Placement& placement, const std::vector<int>& ranks = {},
                       double plan_milliseconds = 0);

/// The table of `muster plan`: a line of titles and one line for each task, then a legend of the distances,
/// the NICs that are left out, the notes and the warnings ("muster: HOST: …"); with `explain` also the
/// reasons. Columns are as wide as their longest entry. Here and in merge_reports(), control characters are
/// replaced (base/text/printable.hpp).
std::string report_table(NodeReport report, bool explain);

/// Merges the reports of a step's nodes, in any order: a heading, then one block for each set of nodes with
/// the same GPUs, CPUs, memory and NICs by local rank. The block with the lowest rank comes first. expected:
/// number of nodes of the step; the heading says if fewer reported. Ends in a newline.
std::string merge_reports(std::vector<NodeReport> reports, int expected, bool explain);

/// A node's report as JSON for srun. Not an interface: both ends belong to one build.
std::string write_node_report(const NodeReport& report);
/// Throws Error if the text is not a result of write_node_report().
NodeReport read_node_report(std::string_view text);

}  // namespace muster::placement
