// SPDX-License-Identifier: Apache-2.0
#include "muster/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <iterator>
#include <optional>
#include <thread>

#include "bootstrap/clock_check.hpp"
#include "bootstrap/launcher.hpp"
#include "bootstrap/this_process.hpp"
#include "communicator/plane_communicator.hpp"
#include "job_inside.hpp"
#include "job_state.hpp"
#include "log.hpp"
#include "observe/counters.hpp"
#include "observe/phase.hpp"
#include "observe/watch.hpp"
#include "rank_0_section.hpp"

namespace muster {

using bootstrap::Record;
using std::chrono::milliseconds;

namespace {

// How long rank 0 may write what it gathers at the end, when the deadline is no shorter.
constexpr milliseconds gathering_time{30'000};

// A rank that is not to speak ends a moment later than the one that does: some launchers end a job with its
// first process.
[[noreturn]] void end_quietly(const Error& error) {
  std::this_thread::sleep_for(milliseconds{500});
  throw Error(error.fault(), error.what(), true);
}

std::unique_ptr<bootstrap::Membership> find_membership(const Deadline& deadline, Timings& timings) {
  observe::Phase const phase("find the job", timings.bootstrap);
  try {
    return bootstrap::find_membership(deadline);
  } catch (const Error& error) {
    if (error.repeated()) end_quietly(error);
    throw;
  }
}

std::vector<Record> exchange(bootstrap::Membership& membership, const Record& mine, const Deadline& deadline,
                             Timings& timings) {
  observe::Phase const phase("exchange hellos", timings.exchange);
  try {
    return membership.exchange(mine, deadline);
  } catch (const Error& error) {
    if (error.repeated()) end_quietly(error);
    throw;
  }
}

// The first fatal finding ends the job; the others are told by rank 0, one line each.
void act_on(const std::vector<bootstrap::Finding>& findings, bool lenient, int rank) {
  for (const auto& finding : findings) {
    auto const text = finding.text + ": " + finding.fix;
    if (finding.fatal && !lenient)
      throw Error(Fault::environment,
                  "preflight: " + text + " (MUSTER_PREFLIGHT=warn on rank 0 goes on in spite of it)");
    if (rank == 0) log::warn(text);
  }
}

// All ranks see the same records and so the same reason: rank 0 says it, and everybody leaves in order.
void check(const std::vector<Record>& records, bootstrap::Membership& membership) {
  try {
    bootstrap::check_roster(records);
    act_on(bootstrap::preflight(records), records.front().surroundings.lenient, membership.rank());
  } catch (const Error& error) {
    membership.finish();
    if (membership.rank() != 0) end_quietly(error);
    throw;
  }
}

void take_stall_warning(JoinOptions& options, int rank) {
  auto const text = bootstrap::variable("MUSTER_STALL_WARNING");
  if (text.empty()) return;
  long seconds = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || seconds < 0 || seconds > 1'000'000) {
    throw Error(Fault::environment,
                fmt::format("join: MUSTER_STALL_WARNING='{}' is not a number of seconds", text), rank != 0);
  }
  options.stall_warning = std::chrono::seconds(seconds);
}

// Rank 0's addresses, as this rank should try them.
std::vector<std::string> addresses_of_leader(const std::vector<Record>& records, const Hello& self) {
  auto addresses = records.front().addresses;
  const Hello& leader = records.front().hello;
  if (leader.host == self.host && leader.boot_id == self.boot_id)
    addresses.insert(addresses.begin(), "127.0.0.1");
  return addresses;
}

}  // namespace

// What goes wrong here is told in the hello, so that it becomes everybody's reason instead of everybody's
// wait.
void Job::State::take_gpu(Record& mine) {
  bool const wanted =
      options.device == Device::cuda || (options.device == Device::automatic && !mine.hello.gpu.empty());
  if (!wanted) return;
  observe::Phase const phase("take the GPU", context->timings->gpu);
  try {
    gpu = detail::open_gpu(mine.hello.gpu, membership->local_rank(), bootstrap::name_of_rank(mine.hello));
    mine.on_gpu = true;
    mine.hello.gpu = gpu->pci_address();
    mine.hello.gpu_uuid = gpu->uuid();
    mine.hello.nccl_version = gpu->nccl_version();
    log::debug("join: GPU {} ({}), NCCL {}", gpu->pci_address(), gpu->uuid(), gpu->nccl_version());
  } catch (const Error& error) {
    mine.trouble = error.what();
    mine.trouble_fault = error.fault();
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

control::PlaneOptions Job::State::plane_options() const {
  return {context->roster, bootstrap::leaders_of(records), options.silence, options.stall_warning,
          options.unattended};
}

void Job::State::start_plane(const Deadline& deadline) {
  observe::Phase const phase("control plane", context->timings->plane);
  auto& plane = context->plane;
  if (plane) {
    plane->lead(plane_options());
  } else {
    const auto& key = records.front().key;
    control::Key shared{};
    if (key.size() != shared.size() || records.front().port == 0)
      throw Error(Fault::system, "join: rank 0's hello has no key or port");
    std::copy(key.begin(), key.end(), shared.begin());
    plane = control::Plane::follow(
        context->rank, plane_options(),
        addresses_of_leader(records, records[static_cast<std::size_t>(context->rank)].hello),
        records.front().port, shared, deadline);
  }
  auto const wait = [&] { return std::max(deadline.remaining(), milliseconds{100}); };
  if (seating.hosts > 1) bootstrap::tell_clock(*plane, seating.host_of, wait());
  observe::answer_for_metrics(*plane, self());
  plane->barrier("join", wait());
  if (seating.hosts > 1 && context->rank == 0 && !examined)
    act_on(bootstrap::compare_clocks(*plane, context->roster, seating.host_of), true, 0);
  plane->enter_phase("running");
  attend();
}

// Who looks after this process, and what is to be done when a rank is lost.
void Job::State::attend() {
  if (auto launcher = bootstrap::launcher_of_this_process())
    context->plane->watch_launcher(std::move(launcher->process), launcher->name);
}

std::unique_ptr<Job::State> Job::State::join(const JoinOptions& options, bool examine) {
  Deadline const deadline(options.deadline);
  log::debug("join: begins, deadline {}", text_of(deadline.length()));
  auto state = std::make_unique<State>();
  state->options = options;
  state->examined = examine;
  auto& timings = *state->context->timings;
  std::optional<observe::Phase> whole(std::in_place, "join", timings.join);
  state->membership = find_membership(deadline, timings);
  auto& membership = *state->membership;
  take_stall_warning(state->options, membership.rank());
  auto& context = *state->context;
  context.rank = membership.rank();
  context.operation_timeout = options.operation_timeout;
  log::set_rank(context.rank);

  Record mine;
  mine.hello = bootstrap::hello_of_this_process();
  mine.hello.rank = context.rank;
  mine.network = bootstrap::network_namespace();
  mine.addresses = bootstrap::own_addresses();
  mine.hello.address = mine.addresses.front();
  state->take_gpu(mine);
  mine.surroundings =
      bootstrap::read_surroundings({mine.on_gpu || examine, membership.size() > 1, membership.local_rank()});
  auto timeline = observe::Watch::announce(mine);
  if (context.rank == 0 && membership.size() > 1) {
    auto const key = control::random_key();
    context.plane = control::Plane::listen(key);
    mine.port = context.plane->port();
    mine.key.assign(key.begin(), key.end());
  }

  if (options.survive_losses && membership.size() > 1) {
    state->reunion = std::make_unique<control::Reunion>();
    mine.reunion_port = state->reunion->port();
  }

  state->records = exchange(membership, mine, deadline, timings);
  if (examine) {
    state->examine();
  } else {
    check(state->records, membership);
  }
  context.roster = roster_of(state->records);
  state->seating = bootstrap::seat(context.roster);
  if (membership.size() > 1) state->start_plane(deadline);
  // From here on the launcher takes the end of a process for nobody's failure.
  if (options.survive_losses) membership.finish();
  if (options.survive_losses && state->gpu) state->gpu->survive();
  state->watch = std::make_unique<observe::Watch>(state->records.front(), context.roster, context.rank,
                                                  context.plane, std::move(timeline));
  log::debug("join: done, {} ranks on {} hosts", state->size(), state->seating.hosts);
  whole.reset();
  observe::tell_join(context.rank, timings);
  return state;
}

Job Job::join(const JoinOptions& options) { return Job(State::join(options, false)); }

namespace detail {

control::Plane* JobInside::plane(Job& job) { return job.state_->context->plane.get(); }

const std::vector<Record>& JobInside::records(Job& job) { return job.state_->records; }

Job JobInside::examine(const JoinOptions& options, std::vector<bootstrap::Finding>& findings) {
  auto state = Job::State::join(options, true);
  findings = state->findings;
  return Job(std::move(state));
}

}  // namespace detail

Job::Job(std::unique_ptr<State> state) : state_(std::move(state)) {}
Job::Job(Job&&) noexcept = default;

Job& Job::operator=(Job&& other) noexcept {
  if (this != &other) {
    if (state_) state_->drop(state_->unwound());
    state_ = std::move(other.state_);
  }
  return *this;
}

Job::~Job() {
  if (state_) state_->drop(state_->unwound());
}

void Job::abandon() noexcept { state_->drop(true); }

void Job::State::drop(bool for_own_reason) noexcept {
  if (left) return;
  try {
    if (!for_own_reason && !(context->plane && context->plane->failed())) return leave();
  } catch (...) {
  }
  left = true;
  if (gpu) gpu->abandon();
  if (watch) watch->gather_after_failure();
  watch.reset();
  if (!context->plane) return;
  if (for_own_reason) {
    context->plane->abandon_for_own_reason();
  } else {
    context->plane->abandon();
  }
}

int Job::rank() const noexcept { return state_->context->rank; }
int Job::size() const noexcept { return state_->size(); }
int Job::local_rank() const noexcept { return roster()[static_cast<std::size_t>(rank())].local_rank; }

int Job::local_size() const noexcept {
  return static_cast<int>(
      std::count(state_->seating.host_of.begin(), state_->seating.host_of.end(), host_index()));
}

int Job::host_index() const noexcept { return state_->seating.host_of[static_cast<std::size_t>(rank())]; }
int Job::host_count() const noexcept { return state_->seating.hosts; }
const char* Job::bootstrap() const noexcept { return state_->membership->name(); }
const std::vector<Hello>& Job::roster() const noexcept { return state_->context->roster; }
bool Job::on_gpu() const noexcept { return state_->gpu != nullptr; }

Communicator Job::world() {
  state_->require_here("world");
  if (!on_gpu()) return host_world();
  if (!state_->world) {
    auto& timings = *state_->context->timings;
    std::optional<observe::Phase> whole(std::in_place, "world communicator", timings.world);
    Deadline const deadline(state_->options.deadline);
    auto const& plane = state_->context->plane;
    if (plane) plane->barrier("world communicator", deadline.length());
    if (plane) plane->enter_phase("setting up NCCL");
    state_->world = state_->gpu->world(detail::Group(state_->context, "world"), deadline);
    if (plane) plane->enter_phase("running");
    whole.reset();
    observe::tell_world(rank(), timings);
  }
  return Communicator(state_->world);
}

Communicator Job::host_world() {
  state_->require_here("host_world");
  if (!state_->host_world) {
    observe::Phase const phase("host communicator", state_->context->timings->host_world);
    Deadline const deadline(state_->options.deadline);
    if (size() == 1) {
      state_->host_world = detail::make_alone();
    } else if (state_->options.survive_losses) {
      state_->context->plane->barrier("host communicator", deadline.length());
      state_->host_world =
          std::make_shared<detail::PlaneCommunicator>(detail::Group(state_->context, "host"));
    } else {
      // MPI_Init waits for every rank without a deadline: they meet here first, where the missing are named.
      state_->context->plane->barrier("host communicator", deadline.length());
      state_->context->plane->enter_phase("setting up Open MPI");
      state_->mpi = detail::start_mpi(*state_->context, deadline);
      // Under Slurm the fence that ends MPI_Init can hold back the ranks of one node only (runtime of
      // Slurm 22.05 below TreeWidth), and a message to a rank that is still inside MPI_Init crashes it: 5 of
      // 60 jobs.
      state_->context->plane->barrier("Open MPI", deadline.length());
      state_->host_world = state_->mpi->world(detail::Group(state_->context, "host"));
      state_->context->plane->enter_phase("running");
    }
    log::debug("host communicator: {}", state_->host_world->backend());
  }
  return Communicator(state_->host_world);
}

Communicator Job::node() {
  state_->require_here("node");
  if (!state_->node) {
    auto const all = world();
    observe::Phase const phase("node communicator", state_->context->timings->node);
    state_->node = all.split(host_index());
  }
  return *state_->node;
}

Communicator Job::across_nodes() {
  state_->require_here("across_nodes");
  if (!state_->across_nodes) {
    auto const all = world();
    observe::Phase const phase("communicator across nodes", state_->context->timings->across_nodes);
    state_->across_nodes = all.split(local_rank());
  }
  return *state_->across_nodes;
}

const Timings& Job::timings() const noexcept { return *state_->context->timings; }

void Job::barrier(const std::string& name, milliseconds deadline) {
  state_->require_here("barrier");
  if (state_->context->plane) state_->context->plane->barrier("barrier '" + name + "'", deadline);
}

void Job::on_rank_0(const std::string& name, const std::function<void()>& section, milliseconds deadline) {
  state_->require_here("on_rank_0");
  run_on_rank_0(state_->context->plane.get(), rank(), size(), name, section, deadline);
}

RankMetrics Job::metrics() const { return observe::counters().read(state_->self()); }

RankMetrics Job::metrics_of(int rank, milliseconds wait) const {
  state_->require_here("metrics_of");
  if (rank < 0 || rank >= size())
    throw Error(Fault::usage, fmt::format("metrics_of: rank {} is not in 0 … {}", rank, size() - 1));
  if (rank == this->rank()) return metrics();
  return observe::ask_for_metrics(*state_->context->plane, roster()[static_cast<std::size_t>(rank)], wait);
}

void Job::leave() { state_->leave(); }

void Job::State::leave() {
  if (left) return;
  Deadline const deadline(options.deadline);
  if (context->plane) context->plane->enter_phase("leaving");
  if (watch && watch->gathers()) {
    watch->stop();
    if (context->plane) context->plane->barrier("leave", deadline.length());
    watch->gather(std::min(gathering_time, deadline.length() / 2));
  }
  if (context->plane) context->plane->last_barrier("leave", deadline.length());
  left = true;
  watch.reset();
  if (gpu) gpu->finish(deadline);
  if (mpi) mpi->finish(deadline);
  if (context->plane) context->plane->leave();
  membership->finish();
  log::debug("leave: done");
}

}  // namespace muster
