// SPDX-License-Identifier: Apache-2.0
// From a process that knows nothing to a rank among others.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "job/job_state.hpp"
#include "launcher/local_hello.hpp"
#include "log.hpp"
#include "repeat_error.hpp"
#include "telemetry/phase.hpp"

namespace muster {

using bootstrap::JoinRecord;

namespace {

// What another rank says is thrown a moment later than there.
template <typename Step>
auto delay_repeated_error(Step step) {
  try {
    return step();
  } catch (const Error& error) {
    if (error.reported_elsewhere()) repeat_error(error.code(), error.what());
    throw;
  }
}

// The first fatal finding ends the job; the others are told by rank 0, one line each.
void apply_findings(const std::vector<bootstrap::Finding>& findings, bool lenient, int rank) {
  for (const auto& finding : findings) {
    auto const text = finding.text + ": " + finding.fix;
    if (finding.fatal && !lenient)
      throw Error(ErrorCode::environment,
                  "preflight: " + text + " (MUSTER_PREFLIGHT=warn on rank 0 goes on in spite of it)");
    if (rank == 0) log::warn(text);
  }
}

void take_stall_warning(JoinOptions& options, int rank) {
  auto const text = bootstrap::variable("MUSTER_STALL_WARNING");
  if (text.empty()) return;
  long seconds = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || seconds < 0 || seconds > 1'000'000) {
    throw Error(ErrorCode::environment,
                fmt::format("join: MUSTER_STALL_WARNING='{}' is not a number of seconds", text), rank != 0);
  }
  options.stall_warning = std::chrono::seconds(seconds);
}

}  // namespace

std::unique_ptr<Job::State> Job::State::join(const JoinOptions& options, bool examine) {
  Deadline const deadline(options.deadline);
  log::debug("join: begins, deadline {}", text_of(deadline.length()));
  auto state = std::make_unique<State>();
  state->options = options;
  state->examined = examine;
  auto& timings = *state->context->timings;
  {
    observe::Phase const whole("join", timings.join);
    state->select_bootstrap(deadline);
    JoinRecord mine = state->describe_this_rank(deadline);
    auto timeline = observe::Telemetry::announce(mine);
    state->listen(mine);
    state->exchange(mine, deadline);
    if (examine) {
      state->examine();
    } else {
      state->check_records();
    }
    state->context->roster = bootstrap::roster_of(state->records);
    state->host_map = bootstrap::seat(state->context->roster);
    if (state->bootstrap->size() > 1) state->start_plane(deadline);
    if (options.tolerate_rank_loss) state->detach_from_launcher();
    state->watch =
        std::make_unique<observe::Telemetry>(state->records.front(), state->context->roster, state->context->rank,
                                         state->context->plane, std::move(timeline));
    log::debug("join: done, {} ranks on {} hosts", state->size(), state->host_map.hosts);
  }
  observe::log_join_timings(state->context->rank, timings);
  return state;
}

void Job::State::select_bootstrap(const Deadline& deadline) {
  {
    observe::Phase const phase("find the job", context->timings->bootstrap);
    bootstrap = delay_repeated_error([&] { return bootstrap::select_bootstrap(deadline); });
  }
  take_stall_warning(options, bootstrap->rank());
  context->rank = bootstrap->rank();
  context->operation_timeout = options.operation_timeout;
  log::set_rank(context->rank);
}

JoinRecord Job::State::describe_this_rank(const Deadline& deadline) {
  JoinRecord mine;
  mine.hello = bootstrap::make_hello();
  mine.hello.rank = context->rank;
  mine.network = bootstrap::network_namespace();
  mine.addresses = bootstrap::own_addresses();
  mine.hello.address = mine.addresses.front();
  take_gpu(mine, deadline);
  mine.inventory =
      bootstrap::read_host_inventory({mine.on_gpu || examined, bootstrap->size() > 1, bootstrap->local_rank(),
                                    mine.on_gpu ? mine.hello.gpu : std::string()});
  return mine;
}

// What goes wrong here is told in the hello, so that it becomes everybody's reason instead of everybody's
// wait; a GPU that does not answer, too, while there is time for that.
void Job::State::take_gpu(JoinRecord& mine, const Deadline& deadline) {
  bool const wanted =
      options.device == Device::cuda || (options.device == Device::automatic && !mine.hello.gpu.empty());
  if (!wanted) return;
  observe::Phase const phase("take the GPU", context->timings->gpu);
  try {
    gpu = detail::open_gpu(mine.hello.gpu, bootstrap->local_rank(), bootstrap::describe_rank(mine.hello),
                           Deadline(std::min(deadline.remaining(), deadline.length() * 3 / 4)));
    mine.on_gpu = true;
    mine.hello.gpu = gpu->pci_address();
    mine.hello.gpu_uuid = gpu->uuid();
    mine.hello.nccl_version = gpu->nccl_version();
    log::debug("join: GPU {} ({}), NCCL {}", gpu->pci_address(), gpu->uuid(), gpu->nccl_version());
  } catch (const Error& error) {
    mine.trouble = error.what();
    mine.trouble_fault = error.code();
  }
}

void Job::State::listen(JoinRecord& mine) {
  if (bootstrap->size() == 1) return;
  if (context->rank == 0) {
    auto const key = control::random_key();
    context->plane = control::ControlPlane::listen(key);
    mine.port = context->plane->port();
    mine.key.assign(key.begin(), key.end());
  }
  if (options.tolerate_rank_loss) {
    reunion = std::make_unique<control::SurvivorRendezvous>();
    mine.reunion_port = reunion->port();
  }
}

void Job::State::exchange(const JoinRecord& mine, const Deadline& deadline) {
  observe::Phase const phase("exchange hellos", context->timings->exchange);
  records = delay_repeated_error([&] { return bootstrap->exchange(mine, deadline); });
}

// All ranks see the same records and so the same reason: rank 0 says it, and everybody leaves in order.
void Job::State::check_records() {
  try {
    bootstrap::check_roster(records);
    apply_findings(bootstrap::preflight(records), records.front().inventory.lenient, bootstrap->rank());
  } catch (const Error& error) {
    bootstrap->finish();
    if (bootstrap->rank() != 0) repeat_error(error.code(), error.what());
    throw;
  }
}

// Whatever is wrong with the GPUs: the rest can be examined without.
void Job::State::examine() {
  try {
    bootstrap::check_roster(records);
  } catch (const Error& error) {
    findings.push_back({true, "join", error.what(), ""});
    gpu.reset();
  }
  auto more = bootstrap::preflight(records);
  std::move(more.begin(), more.end(), std::back_inserter(findings));
}

// From here on the launcher takes the end of a process for nobody's failure.
void Job::State::detach_from_launcher() {
  bootstrap->finish();
  if (gpu) gpu->survive();
}

}  // namespace muster
