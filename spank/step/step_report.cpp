// SPDX-License-Identifier: Apache-2.0
#include "step/step_report.hpp"

#include <cstdlib>
#include <string>
#include <system_error>

#include "log.hpp"
#include "report/report_daemon.hpp"
#include "report/report_sender.hpp"
#include "slurm/slurm_facts.hpp"

extern "C" {
#include <slurm/spank.h>
}

namespace muster::spank {

void start_report_collector(spank_handle* spank, bool explain) {
  static bool started = false;  // this is called for each component of a heterogeneous step
  if (started) return;
  started = true;
  unsetenv(report_address_variable);
  std::uint32_t nodes = 0;
  if (spank_get_item(spank, S_JOB_NNODES, &nodes) != ESPANK_SUCCESS) return;
  try {
    const auto address = start_report_daemon(static_cast<int>(nodes), explain);
    setenv(report_address_variable, address.to_string().c_str(), 1);
  } catch (const std::system_error& error) {
    log_detail("muster: %s; each node prints its own table", error.what());
  }
}

std::optional<ReportAddress> find_report_address(spank_handle* spank) {
  const auto text = job_variable(spank, report_address_variable);
  return text ? ReportAddress::parse(*text) : std::nullopt;
}

void send_or_print_report(const std::optional<ReportAddress>& address, const placement::NodeReport& report,
                          bool explain) {
  if (address && send_report(*address, report)) return;
  std::string table = placement::merge_reports({report}, 1, explain);
  table.pop_back();                      // the log ends the line
  slurm_spank_log("%s", table.c_str());  // in one piece, so that the tables of several nodes do not mix
}

}  // namespace muster::spank
