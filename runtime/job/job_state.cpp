// SPDX-License-Identifier: Apache-2.0
#include "job/job_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "failure/exit_wait.hpp"
#include "job/clock_check.hpp"
#include "job/grow_ranks.hpp"
#include "launcher/launcher_process.hpp"
#include "log.hpp"
#include "rendezvous/key_seal.hpp"
#include "telemetry/phase.hpp"
#include "transport/connect.hpp"

namespace muster::detail {

using std::chrono::milliseconds;

namespace {

// How the control plane monitors the ranks of `records`.
control::ControlPlaneOptions control_plane_options(const JobState& state, bool prints_losses) {
  auto const& options = state.options;
  // A copy: the job may get other members while its control thread looks.
  std::vector<std::pair<std::vector<std::string>, std::uint16_t>> processes;
  for (const auto& record : state.records)
    processes.emplace_back(
        bootstrap::addresses_to_try(record, state.records[static_cast<std::size_t>(state.context->rank)]),
        record.recovery_port);
  auto const query_processes = [processes = std::move(processes)](const std::vector<int>& ranks,
                                                                  milliseconds wait, int connections) {
    std::vector<std::vector<control::Endpoint>> endpoints;
    for (int const rank : ranks) {
      auto const& [addresses, port] = processes[static_cast<std::size_t>(rank)];
      endpoints.push_back(control::parse_endpoints(addresses, port));
    }
    return control::SurvivorRendezvous::find_states(endpoints, wait, connections);
  };
  control::ControlPlaneOptions result{.roster = state.context->roster,
                                      .host_leaders = bootstrap::host_leaders(state.records),
                                      .heartbeat_timeout = options.heartbeat_timeout,
                                      .stall_warning = options.stall_warning,
                                      .abort_grace = options.abort_grace,
                                      .prints_losses = prints_losses,
                                      .query_processes = query_processes,
                                      .watches_ended_ranks = state.shrinks > 0 || state.invited,
                                      .tolerates_losses = options.tolerate_rank_loss};
  for (const auto& record : state.records) result.local_sockets.push_back(record.local_socket);
  return result;
}

control::Key to_key(const std::vector<std::uint8_t>& bytes) {
  control::Key key{};
  if (bytes.size() != key.size()) throw Error(ErrorCode::system, "join: rank 0's hello has no key");
  std::copy(bytes.begin(), bytes.end(), key.begin());
  return key;
}

// On a UNIX socket the kernel vouches for the user, as MUNGE does. So where rank 0 has sealed the job's key
// with MUNGE alone, the ranks of a host connect to their leader without it. They only show that they belong
// to this job: munged opens one credential for each host. Survivors of a loss need the key, on every rank.
void set_host_key(JobState& state, control::ControlPlaneOptions& options, const Deadline& deadline) {
  auto& rank_0 = state.records.front();
  bool const leads =
      options.host_leaders[static_cast<std::size_t>(state.context->rank)] == state.context->rank;
  bool const by_munge = bootstrap::KeySeal::needs_only_munge(rank_0.sealed_key);
  if (leads || !by_munge || state.options.tolerate_rank_loss) state.bootstrap->open_key(rank_0, deadline);
  options.host_key = by_munge ? control::hash_to_key(rank_0.sealed_key) : to_key(rank_0.key);
  // A leader that cannot open the key ends. Then its ranks end with the same error.
  if (!leads) options.before_retry = [&] { state.bootstrap->open_key(rank_0, deadline); };
}

std::shared_ptr<control::ControlPlane> connect_to_rank_0(const JobState& state,
                                                         control::ControlPlaneOptions options,
                                                         const Deadline& deadline) {
  const auto& leader = state.records.front();
  if (leader.port == 0) throw Error(ErrorCode::system, "join: rank 0's hello has no port");
  const auto& own = state.records[static_cast<std::size_t>(state.context->rank)];
  auto const key = leader.key.empty() ? control::Key{} : to_key(leader.key);
  return control::ControlPlane::connect(state.context->rank, std::move(options),
                                        bootstrap::addresses_to_try(leader, own), leader.port, key, deadline);
}

}  // namespace

JobState& JobState::joined(const char* what) {
  if (left) throw Error(ErrorCode::usage, fmt::format("{}: the job was left already", what));
  return *this;
}

void JobState::start_control_plane(const Deadline& deadline,
                                   const std::shared_ptr<control::ControlPlane>& growing) {
  observe::Phase const phase("control plane", context->timings->plane);
  auto& plane = context->plane;
  auto launcher = bootstrap::find_launcher();
  auto control_options = control_plane_options(*this, launcher && launcher->name != "slurmstepd");
  control_options.listener = std::move(local_listener);
  set_host_key(*this, control_options, deadline);
  if (growing) {
    control_options.watches_ended_ranks = control_options.watchdog_paused = true;
    control_options.before_retry = [&growing, open_key = std::move(control_options.before_retry)] {
      if (growing->failed())
        throw Error(ErrorCode::lost_rank, "a rank of the job was lost while it grew", true);
      if (open_key) open_key();
    };
  }
  if (plane) {
    plane->start_coordinator(std::move(control_options));
  } else {
    plane = connect_to_rank_0(*this, std::move(control_options), deadline);
  }
  auto const wait = [&] { return std::max(deadline.remaining(), milliseconds{100}); };
  if (host_map.hosts > 1) bootstrap::report_host_clock(*plane, host_map.host_of);
  observe::serve_metrics(*plane, self());
  growing ? await_connections(plane, *growing, wait()) : plane->barrier("join", wait());
  plane->stop_ended_rank_watch();
  if (host_map.hosts > 1 && context->rank == 0 && !collects_findings) {
    for (const auto& finding : bootstrap::check_clock_skew(*plane, context->roster))
      log::warn("{}: {}", finding.text, finding.fix);
  }
  plane->enter_phase("running");
  if (launcher) plane->watch_launcher(std::move(launcher->process), launcher->name);
}

std::shared_ptr<control::ControlPlane> JobState::store_plane() {
  if (context->plane) return context->plane;
  std::call_once(own_plane_made, [this] { own_plane = control::ControlPlane::alone({context->roster, {}}); });
  return own_plane;
}

void JobState::register_loss_handler() {
  if (!context->plane || !save) return;
  context->plane->on_loss(
      [call = save](const control::Failure& failure) {
        RankLoss loss{{}, failure.text};
        if (failure.lost >= 0) loss.ranks.push_back(failure.lost);
        try {
          call(loss);
        } catch (const std::exception& error) {
          log::warn(fmt::format("on_rank_lost: {}", error.what()));
        } catch (...) {
          log::warn("on_rank_lost: the function threw an exception that is no std::exception");
        }
      },
      save_deadline);
}

void JobState::restart_telemetry() {
  bootstrap::JoinRecord request = records.front();
  request.timeline = request.gathers_telemetry = false;
  telemetry =
      std::make_unique<observe::Telemetry>(request, context->roster, context->rank, context->plane, nullptr);
}

void JobState::leave() {
  if (left) return;
  Deadline const deadline(options.deadline);
  auto wait = deadline.length();
  if (context->plane) context->plane->enter_phase("leaving");
  if (telemetry && telemetry->gathers()) {
    telemetry->stop();
    if (context->plane) context->plane->barrier("leave", wait);
    auto const gathering = wait / 2;
    telemetry->gather(gathering);
    wait = deadline.remaining() + gathering;  // rank 0 may have come late, and still gather
  }
  if (context->plane) context->plane->final_barrier("leave", wait);
  left = true;
  telemetry.reset();
  communicators.finalize(Deadline(options.deadline));
  if (context->plane) context->plane->leave();
  if (own_plane) own_plane->leave();
  bootstrap->finalize();
  log::debug("leave: done");
}

void JobState::disconnect(bool local_error) noexcept {
  if (left) return;
  bool const failure_known = context->plane && context->plane->failure_observed();
  try {
    if (!local_error && !failure_known) return leave();
  } catch (const Error& error) {
    // A destructor throws nothing, so the program cannot print it.
    if (!error.reported_elsewhere()) log::print(error.what());
  } catch (const std::exception& error) {
    log::print(fmt::format("leave failed on {}: {}", bootstrap::describe_rank(self()), error.what()));
    local_error = true;
  }
  left = true;
  control::keep_until_exit(survivor_rendezvous);
  if (communicators.gpu) communicators.gpu->abort();
  stop_telemetry();
  if (!context->plane) return;
  if (local_error) {
    context->plane->abort_with_local_error();
  } else {
    context->plane->abort_connections();
  }
}

void JobState::stop_telemetry() noexcept {
  if (telemetry) telemetry->gather_after_failure();
  telemetry.reset();
}

}  // namespace muster::detail
