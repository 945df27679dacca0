// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "report/report_address.hpp"

namespace muster::spank {

/// Starts a process that collects the reports of this srun's step and prints them as one table to standard
/// error, and says where it listens. The process keeps no other descriptor of srun's, is no child of srun's,
/// takes no signal from its terminal, and ends when the table is printed or srun is gone. To be called once
/// in a process: srun's end of a pipe stays open.
/// @throws std::system_error when it cannot be started.
ReportAddress start_report_process(int nodes, bool explain);

}  // namespace muster::spank
