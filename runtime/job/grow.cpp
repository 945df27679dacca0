// SPDX-License-Identifier: Apache-2.0
#include "job/grow.hpp"

#include <numeric>
#include <utility>

#include "job/invitation.hpp"
#include "job/join.hpp"
#include "log.hpp"
#include "roster/roster.hpp"

namespace muster::detail {

using bootstrap::JoinRecord;
using std::chrono::milliseconds;

namespace {

// Of the parts of `state` that a growth replaces: those of before it, to go on with when it fails.
struct Members {
  std::shared_ptr<JobContext> context;
  bootstrap::HostMap host_map;
  std::vector<JoinRecord> records;
  std::shared_ptr<control::LocalListener> local_listener;
  std::shared_ptr<control::SurvivorRendezvous> survivor_rendezvous;
  int shrinks = 0;

  void swap(JobState& state) {
    std::swap(context, state.context);
    std::swap(host_map, state.host_map);
    std::swap(records, state.records);
    std::swap(local_listener, state.local_listener);
    std::swap(survivor_rendezvous, state.survivor_rendezvous);
    std::swap(shrinks, state.shrinks);
  }
};

// Rank 0 invites the processes. Returns this rank's own invitation.
Invitation share_invitation(const JobState& state, int count,
                            const std::function<void(const std::vector<std::string>&)>& invite,
                            milliseconds wait) {
  auto const& context = *state.context;
  Invitation own;
  std::string error;
  if (context.rank == 0) try {
      own = {0, state.size() + count, state.records.front().addresses, find_free_port(),
             control::random_key()};
      std::vector<std::string> invitations;
      for (Invitation next = own; next.rank + 1 < own.size;) {
        ++next.rank;
        if (next.rank >= state.size()) invitations.push_back(next.encode());
      }
      invite(invitations);
    } catch (const std::exception& failure) {
      error = failure.what();
    }
  if (context.plane) {
    std::vector<int> all(context.roster.size());
    std::iota(all.begin(), all.end(), 0);
    auto const sent = error.empty() && context.rank == 0 ? own.encode() : "";
    auto const got =
        context.plane->broadcast("grow", all, 0, std::vector<std::uint8_t>(sent.begin(), sent.end()), wait);
    if (got.empty() && error.empty()) error = "rank 0 could not invite the processes";
    if (error.empty()) own = Invitation::decode({got.begin(), got.end()});
  }
  if (!error.empty()) throw Error(ErrorCode::system, "grow: " + error, context.rank != 0);
  own.rank = context.rank;
  return own;
}

// What this rank listens on for the other ranks of the grown job, and its record there.
struct RankListener {
  explicit RankListener(const JobState& state)
      : record(state.records[static_cast<std::size_t>(state.context->rank)]) {
    record.hello = state.self();
    record.port = 0;
    record.key.clear();
    record.sealed_key.clear();
    if (state.context->rank == 0) {
      plane = control::ControlPlane::listen(control::random_key());
      record.port = plane->port();
      record.key.assign(plane->key().begin(), plane->key().end());
    }
    record.local_socket = local->name();
    record.recovery_port = recovery->port();
  }

  std::shared_ptr<control::ControlPlane> plane;  // on rank 0
  std::shared_ptr<control::LocalListener> local = std::make_shared<control::LocalListener>();
  std::shared_ptr<control::SurvivorRendezvous> recovery = std::make_shared<control::SurvivorRendezvous>();
  JoinRecord record;
};

Members exchange_members(const JobState& state, const Invitation& invitation, RankListener listener,
                         const Deadline& deadline) {
  Members members;
  members.records = make_bootstrap(invitation)->exchange(listener.record, deadline);
  require_matching_records(members.records, state.options.cpu_ranks, invitation.rank);
  members.local_listener = std::move(listener.local);
  members.survivor_rendezvous = std::move(listener.recovery);
  members.context = std::make_shared<JobContext>();
  members.context->operation_timeout = state.context->operation_timeout;
  members.context->timings = state.context->timings;
  members.context->rank = state.context->rank;
  members.context->roster = bootstrap::make_roster(members.records);
  members.context->plane = std::move(listener.plane);
  members.host_map = bootstrap::map_ranks_to_hosts(members.context->roster);
  return members;
}

// The other ranks use the old control plane no more either.
void leave_plane(control::ControlPlane& plane, milliseconds wait) noexcept {
  try {
    plane.final_barrier("grow", wait);
    plane.leave();
  } catch (const std::exception& error) {
    // The grown job notices a loss, too.
    log::debug("grow: {}", error.what());
    plane.abort_connections();
  }
}

}  // namespace

void grow(JobState& state, int count,
          const std::function<void(const std::vector<std::string>& invitations)>& invite, milliseconds wait) {
  auto const old_plane = state.joined("grow").context->plane;
  if (!state.options.tolerate_rank_loss)
    throw Error(ErrorCode::usage, "grow: the job was not joined with JoinOptions::tolerate_rank_loss");
  Deadline const deadline(wait);
  auto const invitation = share_invitation(state, count, invite, wait);
  Members members;
  try {
    members = exchange_members(state, invitation, RankListener(state), deadline);
    members.swap(state);
    try {
      state.start_control_plane(deadline);
    } catch (...) {
      members.swap(state);
      throw;
    }
  } catch (const std::exception& error) {
    if (old_plane) old_plane->check();  // throws when the cause is the loss of a rank of this job
    throw Error(ErrorCode::deadline, std::string("grow: the job goes on as before: ") + error.what(),
                state.context->rank != 0);
  }
  state.communicators.drop();
  if (auto const& gpu = state.communicators.gpu) gpu->abort_all();
  state.stop_telemetry();
  state.earlier_rendezvous.push_back(std::move(members.survivor_rendezvous));
  if (old_plane) leave_plane(*old_plane, deadline.remaining());
  state.register_loss_handler();
  state.restart_telemetry();
  log::debug("grow: {} ranks", state.size());
}

}  // namespace muster::detail
