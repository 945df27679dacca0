// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "bench/bandwidth.hpp"
#include "control_plane/control_plane.hpp"
#include "doctor/checks.hpp"
#include "job/job_internals.hpp"

namespace muster::cli::doctor {

std::vector<Row> rows_from_findings(const std::vector<bootstrap::Finding>& findings,
                                    const std::vector<std::string>& subjects) {
  std::vector<Row> rows;
  for (const auto& finding : findings) {
    if (std::find(subjects.begin(), subjects.end(), finding.subject) == subjects.end()) continue;
    rows.push_back(
        {finding.fatal ? Verdict::fail : Verdict::warn, finding.subject, finding.text, finding.fix});
  }
  return rows;
}

std::vector<Row> check_join(DoctorContext& context) {
  Job& job = context.job;
  std::vector<Row> rows = rows_from_findings(context.findings, {"join"});
  auto const size = job.size();
  rows.push_back({Verdict::pass, "join",
                  fmt::format("through {}: {} rank{} on {} host{} in {:.0f} ms", job.bootstrap(), size,
                              size == 1 ? "" : "s", job.host_count(), job.host_count() == 1 ? "" : "s",
                              context.join_seconds * 1e3),
                  ""});
  if (size == 1) {
    rows.back().fix =
        "for more than this process start it with srun or mpirun: srun -N2 --mpi=pmix muster doctor";
    return rows;
  }
  std::vector<double> seconds;
  for (int i = 0; i < 20; ++i) {
    auto const since = std::chrono::steady_clock::now();
    job.barrier(fmt::format("doctor {}", i), std::chrono::seconds(10));
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count());
  }
  auto const times = bench::summarize(seconds);
  rows.push_back({Verdict::pass, "control plane",
                  fmt::format("20 barriers, median {:.2f} ms, longest {:.2f} ms", times.median * 1e3,
                              times.longest * 1e3),
                  ""});
  if (times.median > 0.1) {
    rows.back().verdict = Verdict::warn;
    rows.back().fix = "the network or the CPUs of rank 0's host are busy: see whether other jobs share them";
  }
  return rows;
}

}  // namespace muster::cli::doctor
