// SPDX-License-Identifier: Apache-2.0
#include "muster/job.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "job/grow.hpp"
#include "job/job_internals.hpp"
#include "job/job_state.hpp"
#include "job/join.hpp"
#include "job/rank_0_section.hpp"
#include "job/shrink.hpp"
#include "telemetry/counters.hpp"
#include "telemetry/telemetry.hpp"

namespace muster {

using std::chrono::milliseconds;

Job::Job(std::unique_ptr<detail::JobState> state) : state_(std::move(state)) {}
Job::Job(Job&&) noexcept = default;
Job& Job::operator=(Job&&) noexcept = default;
Job::~Job() = default;

Job Job::join(const JoinOptions& options) { return Job(detail::join(options, false)); }
Job Job::join(const JoinOptions& options, const std::string& invitation) {
  if (invitation.empty()) throw Error(ErrorCode::usage, "join: the invitation is empty");
  return Job(detail::join(options, false, invitation));
}
void Job::grow(int count, const std::function<void(const std::vector<std::string>& invitations)>& invite,
               milliseconds deadline) {
  detail::grow(*state_, count, invite, deadline);
}
void Job::shrink(milliseconds deadline) { detail::shrink(*state_, deadline); }
void Job::leave() { state_->leave(); }
void Job::abort() noexcept { state_->disconnect(true); }

int Job::rank() const noexcept { return state_->context->rank; }
int Job::size() const noexcept { return state_->size(); }
int Job::local_rank() const noexcept { return state_->self().local_rank; }

int Job::local_size() const noexcept {
  return static_cast<int>(
      std::count(state_->host_map.host_of.begin(), state_->host_map.host_of.end(), host_index()));
}

int Job::host_index() const noexcept { return state_->host_map.host_of[static_cast<std::size_t>(rank())]; }
int Job::host_count() const noexcept { return state_->host_map.hosts; }
const char* Job::bootstrap() const noexcept { return state_->bootstrap->name(); }
const std::vector<Hello>& Job::roster() const noexcept { return state_->context->roster; }
bool Job::on_gpu() const noexcept { return state_->communicators.gpu != nullptr; }
const Timings& Job::timings() const noexcept { return *state_->context->timings; }

Communicator Job::world() { return state_->joined("world").communicators.world(); }
Communicator Job::host_world() { return state_->joined("host_world").communicators.host_world(); }
Communicator Job::intra_node() { return state_->joined("intra_node").communicators.intra_node(host_index()); }
Communicator Job::inter_node() { return state_->joined("inter_node").communicators.inter_node(local_rank()); }

void Job::on_rank_lost(std::function<void(const RankLoss&)> save, milliseconds deadline) {
  auto& state = state_->joined("on_rank_lost");
  state.save = std::move(save);
  state.save_deadline = deadline;
  state.register_loss_handler();
}

void Job::survive_loss_of(std::span<const int> ranks, milliseconds deadline) {
  auto const& state = state_->joined("survive_loss_of");
  if (!state.options.tolerate_rank_loss)
    throw Error(ErrorCode::usage,
                "survive_loss_of: the job was not joined with JoinOptions::tolerate_rank_loss");
  for (int const rank : ranks) {
    if (rank < 1 || rank >= size())
      throw Error(ErrorCode::usage,
                  fmt::format("survive_loss_of: rank {} is not in 1 … {}", rank, size() - 1));
  }
  if (state.context->plane) state.context->plane->survive_loss_of({ranks.begin(), ranks.end()}, deadline);
}

std::vector<int> Job::lost_ranks() const {
  auto const& plane = state_->joined("lost_ranks").context->plane;
  return plane ? plane->lost_ranks() : std::vector<int>{};
}

void Job::barrier(const std::string& name, milliseconds deadline) {
  auto const& plane = state_->joined("barrier").context->plane;
  if (plane) plane->barrier("barrier '" + name + "'", deadline);
}

Store Job::store() { return Store(state_->joined("store").store_plane()); }

void Job::on_rank_0(const std::string& name, const std::function<void()>& section, milliseconds deadline) {
  run_on_rank_0(state_->joined("on_rank_0").context->plane.get(), rank(), size(), name, section, deadline);
}

RankMetrics Job::metrics() const { return observe::counters().read(state_->self()); }

RankMetrics Job::metrics_of(int rank, milliseconds wait) const {
  auto const& context = *state_->joined("metrics_of").context;
  if (rank < 0 || rank >= size())
    throw Error(ErrorCode::usage, fmt::format("metrics_of: rank {} is not in 0 … {}", rank, size() - 1));
  if (rank == this->rank()) return metrics();
  return observe::request_metrics(*context.plane, context.roster[static_cast<std::size_t>(rank)], wait);
}

namespace detail {

std::shared_ptr<control::ControlPlane> JobInternals::plane(Job& job) { return job.state_->context->plane; }

const std::vector<bootstrap::JoinRecord>& JobInternals::records(Job& job) { return job.state_->records; }

Job JobInternals::join_for_diagnosis(const JoinOptions& options, std::vector<bootstrap::Finding>& findings) {
  auto state = join(options, true);
  findings = state->findings;
  return Job(std::move(state));
}

}  // namespace detail

}  // namespace muster
