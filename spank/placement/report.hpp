// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "placement/environment.hpp"
#include "placement/node.hpp"
#include "placement/place.hpp"

namespace muster::placement {

/// The column titles of the table, ending in a newline. Columns have fixed widths, so that the blocks of
/// several nodes line up.
std::string report_header();

/// One line per task: rank, host, GPU (PCI), cores, NUMA memory, NIC, and why; warnings follow as lines
/// "muster: HOST: …". ranks[i] is the global rank of local task i; empty: local ranks are shown.
std::string report_rows(const std::string& host, const Placement& placement,
                        const std::vector<int>& ranks = {});

/// The plan as JSON, schema 1; indented by two spaces, ends in a newline. environments[i] belongs to
/// tasks[i].
///
///     {"schema": 1,
///      "node": {"source": "live", "host": "n1", "cpus": "0-127",
///               "numa": [{"id": 0, "cpus": "0-15", "memory_bytes": 1, "gpu_memory": false}],
///               "gpus": [{"pci": "0000:01:00.0", "numa": 1, "model": "…", "uuid": "GPU-…"}],
///               "nics": [{"name": "mlx5_0", "port": 1, "pci": "…", "numa": 1, "usable": true, "reason":
///               "…"}], "notes": ["…"]},
///      "tasks": [{"local_rank": 0, "gpus": ["0000:01:00.0"], "cpus": "16-23", "memory": [1], "nics":
///      ["mlx5_0"],
///                 "gpu_cpu": "NODE", "gpu_nic": "PXB", "environment": {"NAME": "value"}, "reasons": ["…"]}],
///      "warnings": ["…"]}
///
/// Unknown values are null; distances are PIX, PXB, PHB, NODE, SYS or unknown; cpus are in the kernel's list
/// format.
std::string report_json(const Node& node, const Placement& placement,
                        const std::vector<std::vector<Variable>>& environments);

}  // namespace muster::placement
