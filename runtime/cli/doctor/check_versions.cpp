// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "doctor/checks.hpp"
#include "job/job_internals.hpp"
#include "roster/rank_list.hpp"

namespace muster::cli::doctor {

std::vector<Row> check_versions(DoctorContext& context) {
  auto rows =
      rows_from_findings(context.findings, {"versions", "NCCL version", "driver version", "plugin version"});
  const auto& first = detail::JobInternals::records(context.job).front();
  auto const or_none = [](const std::string& version) { return version.empty() ? "none" : version; };
  rows.push_back(
      {Verdict::pass, "versions",
       fmt::format("rank 0 has libmuster {}, plugin {}, NCCL {}, NVIDIA driver {}{}",
                   first.hello.muster_version, or_none(first.hello.plugin_version),
                   or_none(first.hello.nccl_version), or_none(first.inventory.driver),
                   rows.empty() && context.job.size() > 1 ? "; the other ranks have the same" : ""),
       ""});
  return rows;
}

std::vector<Row> check_variables(DoctorContext& context) {
  auto rows = rows_from_findings(context.findings, {"variables"});
  if (!rows.empty()) return rows;
  std::string names;
  for (const auto& [name, value] : detail::JobInternals::records(context.job).front().inventory.variables)
    names += (names.empty() ? "" : ", ") + name + "=" + value;
  return {{Verdict::pass, "variables",
           names.empty() ? "no NCCL_*, UCX_* or transport variables of Open MPI are set"
                         : "alike on all ranks; rank 0 has " + names,
           ""}};
}

}  // namespace muster::cli::doctor
