// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstring>

#include "control_plane/clock_offset.hpp"
#include "control_plane/control_plane.hpp"
#include "doctor/checks.hpp"
#include "job/job_internals.hpp"

namespace muster::cli::doctor {

std::vector<Row> check_clocks(DoctorContext& context) {
  Job& job = context.job;
  if (job.host_count() == 1) return {{Verdict::skipped, "clocks", "one host has one clock", ""}};
  auto& plane = *detail::JobInternals::plane(job);
  auto const offset = control::measure_clock_offset(plane, job.local_rank() == 0 ? 8 : 0);
  std::int64_t const mine[] = {-offset.system.count(), offset.round_trip.count()};
  control::Blob blob(sizeof mine);
  std::memcpy(blob.data(), mine, sizeof mine);
  std::vector<int> first;
  for (const auto& hello : job.roster())
    if (hello.local_rank == 0) first.push_back(hello.rank);
  if (job.local_rank() != 0) return {};
  auto const blobs = plane.gather("doctor clocks", first, blob, std::chrono::seconds(60));
  if (job.rank() != 0) return {};
  std::vector<bootstrap::HostClock> clocks;
  bootstrap::HostClock most;
  for (std::size_t i = 0; i < first.size(); ++i) {
    std::int64_t numbers[2] = {};
    if (blobs[i].size() == sizeof numbers) std::memcpy(numbers, blobs[i].data(), sizeof numbers);
    clocks.push_back(
        {first[i], std::chrono::nanoseconds(numbers[0]), std::chrono::nanoseconds(numbers[1] / 2)});
    if (std::chrono::abs(clocks.back().ahead) > std::chrono::abs(most.ahead)) most = clocks.back();
  }
  auto const findings = bootstrap::check_clocks(job.roster(), clocks);
  if (!findings.empty()) return {{Verdict::warn, "clocks", findings[0].text, findings[0].fix}};
  return {{Verdict::pass, "clocks",
           fmt::format("{} hosts; farthest from rank 0's: {} by {:+.3f} ms (give or take {:.3f} ms)",
                       first.size(), job.roster()[static_cast<std::size_t>(most.rank)].host,
                       static_cast<double>(most.ahead.count()) / 1e6,
                       static_cast<double>(most.uncertainty.count()) / 1e6),
           ""}};
}

}  // namespace muster::cli::doctor
