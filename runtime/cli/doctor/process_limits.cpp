// SPDX-License-Identifier: Apache-2.0
#include "doctor/process_limits.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>

#include "bench/sizes.hpp"
#include "roster/rank_list.hpp"

namespace muster::cli::doctor {
namespace {

template <typename Which>
std::vector<int> ranks_with(const std::vector<ProcessLimits>& limits, Which which) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < limits.size(); ++rank)
    if (which(limits[rank])) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

std::uint64_t find_least(const std::vector<ProcessLimits>& limits, std::uint64_t ProcessLimits::*which) {
  auto const least = std::min_element(limits.begin(), limits.end(),
                                      [&](const auto& a, const auto& b) { return a.*which < b.*which; });
  return (*least).*which;
}

std::string format_bytes(std::uint64_t bytes) {
  return bytes == unlimited ? "without limit" : bench::format_size(static_cast<std::size_t>(bytes));
}

Row judge_locked(const std::vector<Hello>& roster, const std::vector<ProcessLimits>& limits,
                 const LimitRequirements& requirements) {
  auto const least = format_bytes(find_least(limits, &ProcessLimits::lockable));
  if (!requirements.adapters) {
    return {Verdict::skipped, "locked memory",
            fmt::format("no host has an RDMA adapter, and only adapters need it (lowest limit: {})", least),
            ""};
  }
  auto const bound = ranks_with(limits, [](const auto& one) { return one.lockable != unlimited; });
  if (bound.empty()) return {Verdict::pass, "locked memory", "without limit on all ranks", ""};
  return {Verdict::warn, "locked memory",
          fmt::format("{} may lock only {}; RDMA adapters need locked memory for their buffers",
                      bootstrap::format_ranks(roster, bound), least),
          "set LimitMEMLOCK=infinity for slurmd and PropagateResourceLimitsExcept=MEMLOCK in slurm.conf"};
}

Row judge_shared(const std::vector<Hello>& roster, const std::vector<ProcessLimits>& limits,
                 const LimitRequirements& requirements) {
  auto const least = format_bytes(find_least(limits, &ProcessLimits::shareable));
  auto const few = ranks_with(limits, [](const auto& one) { return one.shareable < min_shareable; });
  if (few.empty() || !requirements.shared_nccl)
    return {Verdict::pass, "/dev/shm", fmt::format("{} free at least", least), ""};
  return {Verdict::warn, "/dev/shm",
          fmt::format("{} free for {}; NCCL connects the ranks of a host through it and wants {}", least,
                      bootstrap::format_ranks(roster, few), format_bytes(min_shareable)),
          "remove old files there, or mount it larger: in a container --shm-size=1g"};
}

}  // namespace

ProcessLimits read_limits() {
  ProcessLimits limits;
  rlimit lock{};
  if (getrlimit(RLIMIT_MEMLOCK, &lock) == 0 && lock.rlim_cur != RLIM_INFINITY)
    limits.lockable = lock.rlim_cur;
  struct statvfs files {};
  if (statvfs("/dev/shm", &files) == 0) limits.shareable = std::uint64_t{files.f_bavail} * files.f_frsize;
  return limits;
}

std::vector<Row> judge_limits(const std::vector<Hello>& roster, const std::vector<ProcessLimits>& limits,
                              const LimitRequirements& requirements) {
  return {judge_locked(roster, limits, requirements), judge_shared(roster, limits, requirements)};
}

}  // namespace muster::cli::doctor
