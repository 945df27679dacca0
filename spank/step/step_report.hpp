// SPDX-License-Identifier: Apache-2.0
// What a step tells of its placement: the table on srun's standard error.
#pragma once

#include <optional>

#include "placement/report/report.hpp"
#include "report/report_address.hpp"

struct spank_handle;

namespace muster::spank {

/// In srun, before it starts the step (local_user_init): starts the collecting process and leaves its address
/// in srun's environment for the nodes. Where that cannot be done, each node prints its own table. So do the
/// nodes of a heterogeneous step's second and later components, whose environment srun has made before.
void expect_reports(spank_handle* spank, bool explain);

/// On a node, in user_init: srun's collector; nullopt: there is none.
std::optional<ReportAddress> find_report_address(spank_handle* spank);

/// On a node: sends the report to srun's collector or, when that cannot be reached, prints it.
void deliver_report(const std::optional<ReportAddress>& address, const placement::NodeReport& report,
                    bool explain);

}  // namespace muster::spank
