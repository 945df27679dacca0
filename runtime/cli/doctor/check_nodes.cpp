// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>

#include "control_plane/clock_offset.hpp"
#include "control_plane/control_plane.hpp"
#include "doctor/checks.hpp"
#include "doctor/gather_from_ranks.hpp"
#include "doctor/node_speed.hpp"
#include "job/job_internals.hpp"

namespace muster::cli::doctor {
namespace {

// What a node's first rank sends.
struct NodeReport {
  int ranks = 1;
  std::array<double, measure_count> seconds{};
};

NodeReport time_node(const DoctorContext& context, control::ControlPlane& plane) {
  const Job& job = context.job;
  NodeMeasures mine;
  mine[Measure::compute] = time_compute();
  mine[Measure::copy] = time_copy();
  if (job.on_gpu()) mine[Measure::gpu_copy] = time_gpu_copy();
  mine[Measure::all_reduce] = context.all_reduce_on_node;
  auto const round_trip = control::measure_clock_offset(plane).round_trip;  // 0 on rank 0
  mine[Measure::round_trip] = std::chrono::duration<double>(round_trip).count();
  return {job.local_size(), mine.seconds};
}

}  // namespace

std::vector<Row> check_nodes(DoctorContext& context) {
  Job& job = context.job;
  if (job.host_count() == 1)
    return {{Verdict::skipped, "slowest node", "one node: there is no other to compare it with", ""}};
  // The node's other ranks are now blocked in a wait, so they take no CPU time from its first rank.
  job.barrier("doctor before the nodes' pace", std::chrono::seconds(60));
  if (job.local_rank() != 0) return {};
  auto& plane = *detail::JobInternals::plane(job);
  std::vector<int> first;
  for (const auto& hello : job.roster())
    if (hello.local_rank == 0) first.push_back(hello.rank);
  auto const times = gather_from_ranks(job, "doctor nodes' pace", first, time_node(context, plane));
  if (job.rank() != 0) return {};
  std::vector<NodeMeasures> nodes;
  for (std::size_t i = 0; i < first.size(); ++i)
    nodes.push_back(
        {job.roster()[static_cast<std::size_t>(first[i])].host, times[i].ranks, times[i].seconds});
  return {detect_stragglers(nodes)};
}

}  // namespace muster::cli::doctor
