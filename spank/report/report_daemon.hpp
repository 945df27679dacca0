// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "report/report_address.hpp"

namespace muster::spank {

/// Starts a process that collects the reports of this srun's step and prints them as one table to standard
/// error. Returns the address where it listens. The process keeps no other descriptor of srun's, is no child
/// of srun's, ignores signals from its terminal, and ends when it has printed the table or srun has ended.
/// Call this once in a process: srun's end of a pipe stays open.
/// @throws std::system_error if the process cannot be started.
ReportAddress start_report_daemon(int nodes, bool explain);

}  // namespace muster::spank
