// SPDX-License-Identifier: Apache-2.0
// Starts the control plane of a job whose records are exchanged: after the join, and again after a loss.
#include <algorithm>

#include "job/clock_check.hpp"
#include "job/job_state.hpp"
#include "launcher/launcher_process.hpp"
#include "log.hpp"
#include "telemetry/phase.hpp"
#include "telemetry/telemetry.hpp"

namespace muster {

using std::chrono::milliseconds;

control::ControlPlaneOptions Job::State::control_plane_options() const {
  return {context->roster, bootstrap::host_leaders(records), options.heartbeat_timeout, options.stall_warning,
          options.abort_grace};
}

void Job::State::start_control_plane(const Deadline& deadline) {
  observe::Phase const phase("control plane", context->timings->plane);
  auto& plane = context->plane;
  if (plane) {
    plane->start_coordinator(control_plane_options());
  } else {
    plane = connect_to_rank_0(deadline);
  }
  auto const wait = [&] { return std::max(deadline.remaining(), milliseconds{100}); };
  if (host_map.hosts > 1) bootstrap::publish_clock_offset(*plane, host_map.host_of, wait());
  observe::serve_metrics(*plane, self());
  plane->barrier("join", wait());
  if (host_map.hosts > 1 && context->rank == 0 && !collects_findings) {
    for (const auto& finding : bootstrap::check_clock_skew(*plane, context->roster, host_map.host_of))
      log::warn("{}: {}", finding.text, finding.fix);
  }
  plane->enter_phase("running");
  if (auto launcher = bootstrap::find_launcher())
    plane->watch_launcher(std::move(launcher->process), launcher->name);
}

std::shared_ptr<control::ControlPlane> Job::State::connect_to_rank_0(const Deadline& deadline) const {
  const auto& leader = records.front();
  control::Key key{};
  if (leader.key.size() != key.size() || leader.port == 0)
    throw Error(ErrorCode::system, "join: rank 0's hello has no key or port");
  std::copy(leader.key.begin(), leader.key.end(), key.begin());
  const auto& own = records[static_cast<std::size_t>(context->rank)];
  return control::ControlPlane::connect(context->rank, control_plane_options(),
                                        bootstrap::addresses_to_try(leader, own), leader.port, key, deadline);
}

}  // namespace muster
