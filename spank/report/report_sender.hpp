// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "placement/report/report.hpp"
#include "report/report_address.hpp"

namespace muster::spank {

/// Hands this node's report to the step's collector in srun: tries all addresses at once, the first that
/// answers is taken. False when the collector did not take it within the deadline; then it will not show it
/// either, and the caller prints it. Needs no privileges; raises no signal.
bool send_report(const ReportAddress& address, const placement::NodeReport& report,
                 std::chrono::milliseconds deadline = std::chrono::seconds(1));

}  // namespace muster::spank
