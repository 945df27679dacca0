// SPDX-License-Identifier: Apache-2.0
#include "job/join.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "job/grow_ranks.hpp"
#include "job/invitation.hpp"
#include "job/variable_check.hpp"
#include "launcher/local_hello.hpp"
#include "log.hpp"
#include "repeat_error.hpp"
#include "telemetry/phase.hpp"

namespace muster::detail {

using bootstrap::JoinRecord;

namespace {

// Delays an error that another rank prints, so that it is thrown later than there.
template <typename Step>
auto delay_repeated_error(Step step) {
  try {
    return step();
  } catch (const Error& error) {
    if (error.reported_elsewhere()) rethrow_remote_error(error.code(), error.what());
    throw;
  }
}

// The first fatal finding ends the job; rank 0 logs the others, one line each.
void apply_findings(const std::vector<bootstrap::Finding>& findings, bool warn_only, int rank) {
  for (const auto& finding : findings) {
    auto const text = finding.text + ": " + finding.fix;
    if (finding.fatal && !warn_only)
      throw Error(ErrorCode::environment,
                  "preflight: " + text + " (MUSTER_PREFLIGHT=warn on rank 0 goes on in spite of it)");
    if (rank == 0) log::warn(text);
  }
}

// Longer times than a year, such as milliseconds::max(), would overflow.
void limit_times(JoinOptions& options) {
  for (auto* const time : {&options.heartbeat_timeout, &options.stall_warning, &options.abort_grace})
    *time = Deadline(*time).length();
}

void read_stall_warning(JoinOptions& options, int rank) {
  auto const text = bootstrap::get_env("MUSTER_STALL_WARNING");
  if (text.empty()) return;
  long seconds = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || seconds < 0 || seconds > 1'000'000) {
    throw Error(ErrorCode::environment,
                fmt::format("join: MUSTER_STALL_WARNING='{}' is not a number of seconds", text), rank != 0);
  }
  options.stall_warning = std::chrono::seconds(seconds);
}

void select_bootstrap(JobState& state, const std::string& invitation, const Deadline& deadline) {
  {
    observe::Phase const phase("find the job", state.context->timings->bootstrap);
    state.bootstrap = invitation.empty()
                          ? delay_repeated_error([&] { return bootstrap::select_bootstrap(deadline); })
                          : make_bootstrap(Invitation::decode(invitation));
  }
  read_stall_warning(state.options, state.bootstrap->rank());
  state.context->rank = state.bootstrap->rank();
  state.context->operation_timeout = state.options.operation_timeout;
  log::set_rank(state.context->rank);
}

// An error here is put into the record, so that every rank reports it instead of waiting.
void check_variables(JoinRecord& mine) {
  auto const wrong = describe_wrong_variable(bootstrap::get_env);
  if (!wrong) return;
  mine.error = bootstrap::describe_rank(mine.hello) + ": " + *wrong;
  mine.error_code = ErrorCode::environment;
}

// The same for an error here. The deadline leaves time for that also when the GPU does not respond.
void take_gpu(JobState& state, JoinRecord& mine, const Deadline& deadline) {
  bool const wanted = state.options.device == Device::cuda ||
                      (state.options.device == Device::automatic && !mine.hello.gpu.empty());
  int const number = mine.hello.rank - state.options.cpu_ranks;  // among the ranks that may have a GPU
  if (!wanted || number < 0) return;
  observe::Phase const phase("take the GPU", state.context->timings->gpu);
  try {
    auto const& gpu = state.communicators.gpu = open_gpu(
        mine.hello.gpu, std::min(state.bootstrap->local_rank(), number), bootstrap::describe_rank(mine.hello),
        Deadline(std::min(deadline.remaining(), deadline.length() * 3 / 4)));
    mine.on_gpu = true;
    mine.hello.gpu = gpu->pci_address();
    mine.hello.gpu_uuid = gpu->uuid();
    mine.hello.nccl_version = gpu->nccl_version();
    log::debug("join: GPU {} ({}), NCCL {}", gpu->pci_address(), gpu->uuid(), gpu->nccl_version());
  } catch (const Error& error) {
    mine.error = error.what();
    mine.error_code = error.code();
  }
}

JoinRecord describe_this_rank(JobState& state, const Deadline& deadline) {
  JoinRecord mine;
  mine.hello = bootstrap::make_hello();
  mine.hello.rank = state.context->rank;
  mine.network = bootstrap::network_namespace();
  mine.addresses = bootstrap::own_addresses();
  mine.hello.address = mine.addresses.front();
  check_variables(mine);
  if (mine.error.empty()) take_gpu(state, mine, deadline);
  mine.inventory = bootstrap::read_host_inventory({mine.on_gpu || state.collects_findings,
                                                   state.bootstrap->size() > 1, state.bootstrap->local_rank(),
                                                   mine.on_gpu ? mine.hello.gpu : std::string()});
  return mine;
}

// An error here is put into the record, too.
void open_listener(JobState& state, JoinRecord& mine) try {
  if (state.bootstrap->size() == 1) return;
  if (state.context->rank == 0) {
    auto const key = control::random_key();
    state.context->plane = control::ControlPlane::listen(key);
    mine.port = state.context->plane->port();
    mine.key.assign(key.begin(), key.end());
  }
  state.local_listener = std::make_shared<control::LocalListener>();
  mine.local_socket = state.local_listener->name();
  state.survivor_rendezvous = std::make_shared<control::SurvivorRendezvous>();
  mine.recovery_port = state.survivor_rendezvous->port();
} catch (const std::exception& error) {
  if (!mine.error.empty()) return;
  mine.error = bootstrap::describe_rank(mine.hello) + " " + error.what();
  mine.error_code = ErrorCode::system;
}

void exchange(JobState& state, const JoinRecord& mine, const Deadline& deadline) {
  observe::Phase const phase("exchange hellos", state.context->timings->exchange);
  state.records = delay_repeated_error([&] { return state.bootstrap->exchange(mine, deadline); });
}

// All ranks read the same records and get the same error: rank 0 prints it, and every rank leaves in order.
void check_records(JobState& state) {
  try {
    require_matching_records(state.records, state.options.cpu_ranks, state.bootstrap->rank());
  } catch (const Error& error) {
    state.bootstrap->finalize();
    if (state.bootstrap->rank() != 0) rethrow_remote_error(error.code(), error.what());
    throw;
  }
}

// An error of the GPUs is a finding; the other checks go on without GPUs.
void collect_findings(JobState& state) {
  try {
    bootstrap::check_roster(state.records, state.options.cpu_ranks);
  } catch (const Error& error) {
    state.findings.push_back({true, "join", error.what(), ""});
    state.communicators.gpu.reset();
  }
  auto more = bootstrap::preflight(state.records);
  std::move(more.begin(), more.end(), std::back_inserter(state.findings));
}

}  // namespace

void require_matching_records(const std::vector<JoinRecord>& records, int cpu_ranks, int rank) {
  bootstrap::check_roster(records, cpu_ranks);
  apply_findings(bootstrap::preflight(records), records.front().inventory.warn_only, rank);
}

std::unique_ptr<JobState> join(const JoinOptions& options, bool collects_findings,
                               const std::string& invitation) {
  Deadline const deadline(options.deadline);
  log::debug("join: begins, deadline {}", format_duration(deadline.length()));
  auto state = std::make_unique<JobState>();
  state->options = options;
  limit_times(state->options);
  state->collects_findings = collects_findings;
  state->invited = !invitation.empty();
  auto& timings = *state->context->timings;
  {
    observe::Phase const whole("join", timings.join);
    select_bootstrap(*state, invitation, deadline);
    JoinRecord mine = describe_this_rank(*state, deadline);
    auto timeline = observe::Telemetry::publish_request(mine);
    open_listener(*state, mine);
    exchange(*state, mine, deadline);
    if (collects_findings) {
      collect_findings(*state);
    } else {
      check_records(*state);
    }
    state->context->roster = bootstrap::make_roster(state->records);
    state->host_map = bootstrap::map_ranks_to_hosts(state->context->roster);
    auto const connect = [&]() -> control::ControlPlane& {
      state->start_control_plane(deadline);
      return *state->context->plane;
    };
    if (state->invited) {
      enter_grown_job(connect, deadline);
    } else if (state->bootstrap->size() > 1) {
      connect();
    }
    // From here on the launcher does not take the end of a process for a failure of the job.
    if (options.tolerate_rank_loss) state->bootstrap->finalize();
    state->telemetry = std::make_unique<observe::Telemetry>(state->records.front(), state->context->roster,
                                                            state->context->rank, state->context->plane,
                                                            std::move(timeline));
    log::debug("join: done, {} ranks on {} hosts", state->size(), state->host_map.hosts);
  }
  observe::log_join_timings(state->context->rank, timings);
  state->left = false;
  return state;
}

}  // namespace muster::detail
