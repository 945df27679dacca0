// SPDX-License-Identifier: Apache-2.0
// The table of a step's placement on srun's standard error.
#pragma once

#include <optional>

#include "placement/report/report.hpp"
#include "report/report_address.hpp"

struct spank_handle;

namespace muster::spank {

/// In srun, before it starts the step (local_user_init): starts the collecting process and puts its address
/// into srun's environment for the nodes. If that fails, each node prints its own table. So do the nodes of a
/// heterogeneous step's second and later components, because srun has made their environment before.
void start_report_collector(spank_handle* spank, bool explain);

/// On a node, in user_init: the address of srun's collector; nullopt: there is none.
std::optional<ReportAddress> find_report_address(spank_handle* spank);

/// On a node: sends the report to srun's collector, or prints it if that fails.
void send_or_print_report(const std::optional<ReportAddress>& address, const placement::NodeReport& report,
                          bool explain);

}  // namespace muster::spank
