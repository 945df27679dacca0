// SPDX-License-Identifier: Apache-2.0
#include "job/grow.hpp"

#include <numeric>
#include <utility>

#include "job/grow_ranks.hpp"
#include "job/invitation.hpp"
#include "job/join.hpp"
#include "log.hpp"
#include "roster/roster.hpp"

namespace muster::detail {

using bootstrap::JoinRecord;
using std::chrono::milliseconds;

namespace {

// The parts of `state` that a growth replaces.
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

// A rank of the job in its growth, by sockets.
class SocketGrowNetwork final : public GrowNetwork {
 public:
  SocketGrowNetwork(JobState& state, const Invitation& invitation)
      : state_(state), invitation_(invitation), old_plane_(state.context->plane) {}

  void exchange(const Deadline& deadline) override {
    auto const interrupted = [this] { return old_plane_ && old_plane_->failed(); };
    auto const& before = *state_.context;
    RankListener listener(state_);
    members_.survivor_rendezvous = listener.recovery;
    members_.records = make_bootstrap(invitation_, interrupted)->exchange(listener.record, deadline);
    require_matching_records(members_.records, state_.options.cpu_ranks, before.rank);
    members_.local_listener = std::move(listener.local);
    members_.context = std::make_shared<JobContext>();
    members_.context->operation_timeout = before.operation_timeout;
    members_.context->timings = before.timings;
    members_.context->rank = before.rank;
    members_.context->roster = bootstrap::make_roster(members_.records);
    members_.context->plane = std::move(listener.plane);
    members_.host_map = bootstrap::map_ranks_to_hosts(members_.context->roster);
  }

  void connect(const Deadline& deadline) override {
    members_.swap(state_);
    try {
      state_.start_control_plane(deadline, old_plane_);
    } catch (...) {
      members_.swap(state_);
      throw;
    }
    members_.swap(state_);
  }

  // A process that takes this rank for one of the grown job, because rank 0 was lost while the ranks decided,
  // must not take it for ended: its recovery's port stays open.
  void abandon(const std::string& why) noexcept override {
    if (!members_.context) return;  // nobody can have voted for the growth
    if (members_.context->plane) members_.context->plane->abort_because(why);
    state_.earlier_rendezvous.push_back(std::move(members_.survivor_rendezvous));
  }

  control::ControlPlane& enter() override {
    state_.communicators.drop();
    if (auto const& gpu = state_.communicators.gpu) gpu->abort_all();
    state_.stop_telemetry();
    members_.swap(state_);
    state_.earlier_rendezvous.push_back(std::move(members_.survivor_rendezvous));
    state_.register_loss_handler();
    state_.restart_telemetry();
    return *state_.context->plane;
  }

 private:
  JobState& state_;
  const Invitation& invitation_;
  std::shared_ptr<control::ControlPlane> old_plane_;
  Members members_;  // of the grown job, and of the old one after enter()
};

}  // namespace

void grow(JobState& state, int count,
          const std::function<void(const std::vector<std::string>& invitations)>& invite, milliseconds wait) {
  auto const plane = state.joined("grow").context->plane;
  if (!state.options.tolerate_rank_loss)
    throw Error(ErrorCode::usage, "grow: the job was not joined with JoinOptions::tolerate_rank_loss");
  Deadline const deadline(wait);
  auto const invitation = share_invitation(state, count, invite, wait);
  SocketGrowNetwork network(state, invitation);
  grow_ranks(network, plane.get(), state.size(), deadline);
  log::debug("grow: {} ranks", state.size());
}

}  // namespace muster::detail
