// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "doctor/checks.hpp"
#include "job/job_internals.hpp"

namespace muster::cli::doctor {

std::vector<Row> check_gpus(DoctorContext& context) {
  return judge_gpus(detail::JobInternals::records(context.job), context.findings, context.job.on_gpu());
}

std::vector<Row> judge_gpus(const std::vector<bootstrap::JoinRecord>& records,
                            const std::vector<bootstrap::Finding>& findings, bool used) {
  auto rows = rows_from_findings(findings, {"GPUs", "GPU isolation"});
  auto const count = [&](auto which) { return std::count_if(records.begin(), records.end(), which); };
  auto const on_gpu = count([](const bootstrap::JoinRecord& record) { return record.on_gpu; });
  auto const placed = count([](const bootstrap::JoinRecord& record) { return !record.hello.gpu.empty(); });
  auto const can_open =
      count([](const bootstrap::JoinRecord& record) { return record.inventory.gpus_openable > 0; });
  auto const have_files =
      count([](const bootstrap::JoinRecord& record) { return record.inventory.gpus_openable >= 0; });
  auto const openable = fmt::format("{} of {} ranks may open a GPU device", can_open, records.size());
  if (on_gpu == 0) {
    Row row{Verdict::skipped, "GPUs", "", ""};
    if (placed > 0) {
      row.found = fmt::format("{} of {} ranks have a GPU placed but the job runs on the CPU; {}", placed,
                              records.size(), openable);
    } else if (have_files == 0) {
      row.found = "no host shows a GPU device (/dev/nvidia*), so nothing about GPUs was tried";
    } else {
      row.found = openable + ", but none was placed and none requested";
      row.fix = "start with srun --gpus-per-task=1 --muster, or pass --device gpu";
    }
    rows.push_back(row);
    return rows;
  }
  if (!used) {
    rows.push_back(
        {Verdict::skipped, "GPUs",
         fmt::format("{} of {} ranks have a GPU that they can use; the other checks ran on the CPU", on_gpu,
                     records.size()),
         ""});
    return rows;
  }
  if (rows.empty()) {
    rows.push_back({Verdict::pass, "GPUs",
                    fmt::format("{} ranks, each on a GPU of its own that it can use{}", on_gpu,
                                have_files > 0 ? ", and no rank's is hidden from its neighbours" : ""),
                    ""});
  }
  return rows;
}

}  // namespace muster::cli::doctor
