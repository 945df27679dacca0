// SPDX-License-Identifier: Apache-2.0
// The job's getters, barriers and metrics. Joining, leaving, shrinking and the communicators are in files of
// their own.
#include "muster/job.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "job/job_internals.hpp"
#include "job/job_state.hpp"
#include "job/rank_0_section.hpp"
#include "telemetry/counters.hpp"
#include "telemetry/telemetry.hpp"

namespace muster {

using std::chrono::milliseconds;

Job::Job(std::unique_ptr<State> state) : state_(std::move(state)) {}
Job::Job(Job&&) noexcept = default;

Job Job::join(const JoinOptions& options) { return Job(State::join(options, false)); }

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
bool Job::on_gpu() const noexcept { return state_->gpu != nullptr; }
const Timings& Job::timings() const noexcept { return *state_->context->timings; }

void Job::barrier(const std::string& name, milliseconds deadline) {
  state_->require_joined("barrier");
  if (state_->context->plane) state_->context->plane->barrier("barrier '" + name + "'", deadline);
}

void Job::on_rank_0(const std::string& name, const std::function<void()>& section, milliseconds deadline) {
  state_->require_joined("on_rank_0");
  run_on_rank_0(state_->context->plane.get(), rank(), size(), name, section, deadline);
}

RankMetrics Job::metrics() const { return observe::counters().read(state_->self()); }

RankMetrics Job::metrics_of(int rank, milliseconds wait) const {
  state_->require_joined("metrics_of");
  if (rank < 0 || rank >= size())
    throw Error(ErrorCode::usage, fmt::format("metrics_of: rank {} is not in 0 … {}", rank, size() - 1));
  if (rank == this->rank()) return metrics();
  return observe::request_metrics(*state_->context->plane, roster()[static_cast<std::size_t>(rank)], wait);
}

namespace detail {

control::ControlPlane* JobInternals::plane(Job& job) { return job.state_->context->plane.get(); }

const std::vector<bootstrap::JoinRecord>& JobInternals::records(Job& job) { return job.state_->records; }

Job JobInternals::join_for_diagnosis(const JoinOptions& options, std::vector<bootstrap::Finding>& findings) {
  auto state = Job::State::join(options, true);
  findings = state->findings;
  return Job(std::move(state));
}

}  // namespace detail

}  // namespace muster
