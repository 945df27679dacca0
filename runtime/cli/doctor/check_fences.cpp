// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "control_plane/control_plane.hpp"
#include "doctor/checks.hpp"
#include "job/job_internals.hpp"
#include "roster/rank_list.hpp"

namespace muster::cli::doctor {
namespace {

constexpr std::chrono::milliseconds delay{300};
constexpr int fence_seconds = 20;
constexpr std::chrono::seconds barrier_timeout{60};

int find_late_rank(const Job& job) {
  const auto& roster = job.roster();
  for (const auto& hello : roster)
    if (hello.local_rank == 0 && hello.rank > 0 && &hello != &roster.front() &&
        (hello.host != roster.front().host || hello.boot_id != roster.front().boot_id))
      return hello.rank;
  return -1;
}

enum class FenceResult : std::uint8_t { waited, released_early, failed };

struct Outcome {
  FenceResult result = FenceResult::failed;
  double milliseconds = 0;
};
static_assert(std::is_trivially_copyable_v<Outcome>);

// The late rank stores a marker before it enters the fence. A rank that leaves the fence and finds no marker
// was not held back. The marker is stored before the fence can end, so the result depends on no clock.
Outcome try_fence(Job& job, control::ControlPlane& plane, bool collecting, int late) {
  auto const marker = fmt::format("doctor/fence/{}", collecting ? "collecting" : "plain");
  plane.barrier(marker, barrier_timeout);
  auto const since = std::chrono::steady_clock::now();
  if (job.rank() == late) {
    std::this_thread::sleep_for(delay);
    plane.put(marker, {1});
    plane.get(marker, barrier_timeout);  // returns once it is stored
  }
  auto const error = pmix_fence(collecting, fence_seconds);
  Outcome outcome;
  outcome.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since).count();
  if (error.empty())
    outcome.result =
        plane.get(marker, std::chrono::milliseconds{0}) ? FenceResult::waited : FenceResult::released_early;
  return outcome;
}

std::vector<Outcome> gather_outcomes(Job& job, control::ControlPlane& plane, bool collecting,
                                     const Outcome& mine) {
  control::Blob blob(sizeof mine);
  std::memcpy(blob.data(), &mine, sizeof mine);
  std::vector<int> everyone;
  for (const auto& hello : job.roster()) everyone.push_back(hello.rank);
  std::vector<Outcome> all;
  for (const auto& one :
       plane.gather(collecting ? "doctor fence 2" : "doctor fence 1", everyone, blob, barrier_timeout)) {
    Outcome outcome;
    if (one.size() == sizeof outcome) std::memcpy(&outcome, one.data(), sizeof outcome);
    all.push_back(outcome);
  }
  return all;
}

Row make_row(const Job& job, const std::vector<Outcome>& all, bool collecting, int late) {
  std::vector<int> released_early;
  std::vector<int> failed;
  double least = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].result == FenceResult::failed) failed.push_back(static_cast<int>(rank));
    if (all[rank].result != FenceResult::released_early) continue;
    least = released_early.empty() ? all[rank].milliseconds : std::min(least, all[rank].milliseconds);
    released_early.push_back(static_cast<int>(rank));
  }
  auto const kind = collecting ? "PMIx fence, collecting" : "PMIx fence, plain";
  const char* const ring = "export SLURM_PMIX_FENCE=ring, or set TreeWidth=2 in slurm.conf";
  if (!failed.empty()) {
    return {Verdict::fail, kind,
            fmt::format("did not end within {} s for {}", fence_seconds,
                        bootstrap::format_ranks(job.roster(), failed)),
            ring};
  }
  if (released_early.empty()) {
    return {Verdict::pass, kind,
            fmt::format("held all ranks back until rank {} came {} ms late", late, delay.count()), ""};
  }
  auto const found =
      fmt::format("let {} go after {:.1f} ms, before rank {} came {} ms late",
                  bootstrap::format_ranks(job.roster(), released_early), least, late, delay.count());
  if (collecting) return {Verdict::fail, kind, found + ": the join relies on it", ring};
  return {Verdict::warn, kind,
          found +
              ": no barrier over hosts (Muster does not use it as one), so MPI_Init can end on one host "
              "before another is ready, and a rank that a message then reaches crashes",
          std::string("srun --muster, ") + ring};
}

}  // namespace

std::vector<Row> check_fences(DoctorContext& context) {
  Job& job = context.job;
  auto const skipped = [](const char* why) {
    return std::vector<Row>{{Verdict::skipped, "PMIx fences", why, ""}};
  };
  if (std::strcmp(job.bootstrap(), "pmix") != 0) return skipped("the job was not joined through PMIx");
  int const late = find_late_rank(job);
  if (late < 0) return skipped("one host: the check needs ranks on another host");
  auto& plane = *detail::JobInternals::plane(job);
  std::vector<Row> rows;
  for (bool const collecting : {false, true})
    rows.push_back(make_row(job,
                            gather_outcomes(job, plane, collecting, try_fence(job, plane, collecting, late)),
                            collecting, late));
  return rows;
}

}  // namespace muster::cli::doctor
