// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>

#include "control_plane/clock_offset.hpp"
#include "control_plane/control_plane.hpp"
#include "doctor/checks.hpp"
#include "doctor/gathered.hpp"
#include "doctor/node_pace.hpp"
#include "job/job_internals.hpp"

namespace muster::cli::doctor {
namespace {

// What a node's first rank tells.
struct NodeTimes {
  int ranks = 1;
  std::array<double, paces> seconds{};
};

NodeTimes time_node(const Patient& patient, control::ControlPlane& plane) {
  const Job& job = patient.job;
  NodePace mine;
  mine[Pace::compute] = time_compute();
  mine[Pace::copy] = time_copy();
  if (job.on_gpu()) mine[Pace::gpu_copy] = time_gpu_copy();
  mine[Pace::all_reduce] = patient.all_reduce_on_node;
  auto const round_trip = control::measure_clock_offset(plane).round_trip;  // none on rank 0
  mine[Pace::round_trip] = std::chrono::duration<double>(round_trip).count();
  return {job.local_size(), mine.seconds};
}

}  // namespace

std::vector<Row> check_nodes(Patient& patient) {
  Job& job = patient.job;
  if (job.host_count() == 1)
    return {{Verdict::skipped, "slowest node", "one node: there is no other to compare it with", ""}};
  // A node's other ranks have come to a wait by now, and take no time from its first one.
  job.barrier("doctor before the nodes' pace", std::chrono::seconds(60));
  if (job.local_rank() != 0) return {};
  auto& plane = *detail::JobInternals::plane(job);
  std::vector<int> first;
  for (const auto& hello : job.roster())
    if (hello.local_rank == 0) first.push_back(hello.rank);
  auto const times = gathered(job, "doctor nodes' pace", first, time_node(patient, plane));
  if (job.rank() != 0) return {};
  std::vector<NodePace> nodes;
  for (std::size_t i = 0; i < first.size(); ++i)
    nodes.push_back(
        {job.roster()[static_cast<std::size_t>(first[i])].host, times[i].ranks, times[i].seconds});
  return {judge_paces(nodes)};
}

}  // namespace muster::cli::doctor
