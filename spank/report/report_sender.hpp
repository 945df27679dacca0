// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "placement/report/report.hpp"
#include "report/report_address.hpp"

namespace muster::spank {

/// Sends this node's report to the step's collector in srun. Tries all addresses at once, for a second at
/// most, and uses the first that answers; on a busy machine the collector may do so late. False if the
/// collector did not accept the report within the deadline; it will then not show it, and the caller prints
/// it. Needs no privileges; raises no signal.
bool send_report(const ReportAddress& address, const placement::NodeReport& report,
                 std::chrono::milliseconds deadline = std::chrono::seconds(5));

}  // namespace muster::spank
