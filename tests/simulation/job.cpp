// SPDX-License-Identifier: Apache-2.0
#include "job.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "growth.hpp"
#include "job/job_state.hpp"
#include "program.hpp"
#include "recovery/recovery.hpp"
#include "roster/roster.hpp"
#include "survivors.hpp"

namespace simulator {
namespace {

using namespace std::chrono_literals;
using muster::Error;
using muster::control::ControlPlane;

std::vector<int> first_ranks(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// Where a process is in its program.
struct Position {
  Session* session = nullptr;
  muster::detail::JobState state{};  // without a control plane until it has connected
  bool has_joined = false;
  std::size_t next_call = 0;

  int rank() const { return state.context->rank; }
  const std::shared_ptr<ControlPlane>& plane() const { return state.context->plane; }
};

class Job {
 public:
  explicit Job(const JobOptions& options);
  JobResult run();

 private:
  void schedule_faults(std::optional<GrowMoment> moment);
  void inject(const Fault& fault);
  void on_end(const Process& process);
  int run_program(Process& process);
  void enter(Position& at, Session& session, int rank, std::shared_ptr<ControlPlane> plane = nullptr);
  void register_loss_handler(Position& at);
  void note_loss(const ControlPlane& plane, const std::string& what);
  void save(const std::string& what);
  std::optional<int> run_session(Position& at, std::optional<muster::control::Failure>& failure);
  void grow(Position& at);
  SimulatedGrowNetwork grow_network(Position& at);
  std::optional<int> join_growth(Position& at);
  void shrink(Position& at, const muster::control::Failure& failure);
  Session& session(int number, const std::vector<int>& members, bool grown = false);
  Process& process(int rank) { return *simulator_.processes()[static_cast<std::size_t>(rank)]; }
  Duration since_start() const { return muster::Clock::now() - simulator_.start(); }
  RankEnd& own_end() { return result_.ranks[static_cast<std::size_t>(simulator_.self().rank)]; }

  // The programs use all of these until simulator_ has ended.
  JobResult result_;
  std::optional<Network> network_;
  // By number and members: survivors that do not agree come to different ones.
  std::map<std::pair<int, std::vector<int>>, std::unique_ptr<Session>> sessions_;
  JobPlan plan_;
  Growth growth_;
  std::set<GrowMoment> moments_;  // that have come
  Simulator simulator_;
};

Job::Job(const JobOptions& options) : simulator_(options.seed) {
  plan_ = choose_plan(simulator_, options);
  network_.emplace(simulator_, plan_.network);
  simulator_.on_end([this](Process& process) {
    network_->on_end(process);
    on_end(process);
  });
  result_.after_loss = plan_.after_loss;
  result_.hosts = plan_.host_of.back() + 1;
  result_.host_of = plan_.host_of;
  result_.slow_network = plan_.network.latency;
  result_.faults = plan_.faults;
  result_.ranks.resize(plan_.ranks.size());
  result_.first_ranks = plan_.first_ranks;
  result_.grows = plan_.grow_at.has_value();
  result_.stall_warning = plan_.stall_warning;
  result_.saves = plan_.saves;
  result_.save_deadline = plan_.save_deadline;
  result_.calls_again = plan_.calls_again;
  for (const auto& rank : plan_.ranks)
    result_.longest_save = std::max(result_.longest_save, plan_.saves ? rank.save_time : Duration{});
  growth_.on_moment = [this](GrowMoment moment) { schedule_faults(moment); };
}

JobResult Job::run() {
  for (std::size_t r = 0; r < plan_.ranks.size(); ++r)
    simulator_.add_process(plan_.host_of[r], [this, r] { return run_program(process(static_cast<int>(r))); });
  session(0, first_ranks(plan_.first_ranks));
  if (!plan_.grow_at) schedule_faults(std::nullopt);
  simulator_.run(300s);
  if (plan_.grow_at)  // without the faults that did not come
    std::erase_if(result_.faults, [this](const Fault& fault) { return !moments_.contains(fault.moment); });
  for (const auto& process : simulator_.processes()) {
    auto& end = result_.ranks[static_cast<std::size_t>(process->rank)];
    end.ended = process->state == Process::State::ended;
    end.exit_code = process->exit_code;
    end.when = process->ended - simulator_.start();
    end.lines = process->lines;
    for (const auto& [when, text] : process->warnings)
      end.warnings.push_back({when - simulator_.start(), text});
    end.returned = process->returned;
    end.ended_by_library = process->ended_by_library;
    if (process->stopped > Time{}) end.stopped = process->stopped - simulator_.start();
    for (auto& [key, session] : sessions_)
      for (int r = 0; r < session->size(); ++r)
        if (session->rank(r).process == process.get() && session->rank(r).turned_away) end.turned_away = true;
  }
  return result_;
}

// `moment`: of a job that grows, when it comes for the first time.
void Job::schedule_faults(std::optional<GrowMoment> moment) {
  if (moment && !moments_.insert(*moment).second) return;
  for (std::size_t i = 0; i < plan_.faults.size(); ++i) {
    const auto& fault = plan_.faults[i];
    if (moment && fault.moment != *moment) continue;
    simulator_.after(fault.when, [this, &fault] { inject(fault); });
    if (moment) result_.faults[i].when += since_start();
  }
}

void Job::inject(const Fault& fault) {
  auto& culprit = process(fault.rank);
  switch (fault.kind) {
    case FaultKind::killed:
      return simulator_.kill(culprit);
    case FaultKind::stopped:
      if (culprit.state == Process::State::running) network_->stop(culprit);
      return;
    case FaultKind::host_down:
      network_->isolate(culprit.host);
      for (int const r : fault.culprits) simulator_.kill(process(r));
      return;
    case FaultKind::link_down:
      return network_->isolate(culprit.host);
    default:
      return;  // the program does it
  }
}

// As srun --kill-on-bad-exit: once.
void Job::on_end(const Process& ended) {
  if (plan_.after_loss != AfterLoss::launcher || ended.exit_code == 0 || result_.launcher_kills) return;
  result_.launcher_kills = since_start() + plan_.launcher_delay;
  simulator_.after(plan_.launcher_delay, [this] {
    for (const auto& process : simulator_.processes()) simulator_.kill(*process);
  });
}

int Job::run_program(Process& process) {
  Position at;
  if (plan_.saves) at.state.save = [this](const muster::RankLoss& loss) { save(loss.what); };
  at.state.save_deadline = plan_.save_deadline;
  at.state.context->rank = process.rank;
  if (process.rank >= plan_.first_ranks) {
    if (auto const exit_code = join_growth(at)) return *exit_code;
    register_loss_handler(at);
  } else {
    enter(at, *sessions_.begin()->second, process.rank);
  }
  simulator_.compute(plan_.ranks[static_cast<std::size_t>(process.rank)].start_delay);
  for (;;) {
    std::optional<muster::control::Failure> loss;
    if (auto const exit_code = run_session(at, loss)) return *exit_code;
    try {
      shrink(at, *loss);
    } catch (const Error& error) {
      if (!error.reported_elsewhere()) simulator_.print_line(error.what());
      return error.exit_code();
    }
  }
}

// Returns the exit code; nothing after a loss after which the job goes on.
std::optional<int> Job::run_session(Position& at, std::optional<muster::control::Failure>& loss) {
  if (at.session->size() == 1) return 0;  // it has no control plane
  if (!at.plane()) at.state.context->plane = at.session->start_plane(at.rank());
  try {
    for (;;) {
      auto const plane = at.plane();
      Program program(simulator_, plan_, result_, *at.session, at.state.context);
      program.join(at.has_joined);
      if (!std::exchange(at.has_joined, true)) register_loss_handler(at);
      while (at.plane() == plane) {
        auto const grows = program.run(at.next_call);
        if (!grows) {
          plane->leave();
          return 0;
        }
        at.next_call = *grows + 1;
        grow(at);
      }
    }
  } catch (const Error& error) {
    auto const plane = at.plane();
    loss = plane->failure();
    if (!error.reported_elsewhere()) simulator_.print_line(error.what());
    if (error.code() == muster::ErrorCode::lost_rank) note_loss(*plane, error.what());
    at.session->stop_accepting(at.rank());
    plane->abort_connections();
    bool const goes_on =
        plan_.after_loss == AfterLoss::shrink && loss && error.code() == muster::ErrorCode::lost_rank;
    if (goes_on) return std::nullopt;
    return error.exit_code();
  } catch (const OwnError& error) {
    at.plane()->abort_with_local_error();
    simulator_.print_line(error.what());
    return 1;
  }
}

// As set_members() of Job::shrink().
void Job::enter(Position& at, Session& session, int rank, std::shared_ptr<ControlPlane> plane) {
  auto next = std::make_shared<muster::detail::JobContext>();
  next->plane = std::move(plane);
  next->roster = session.roster();
  next->rank = rank;
  at.session = &session;
  at.state.context = std::move(next);
  own_end().members = session.members();
  own_end().stays.push_back({session.id(), since_start()});
}

void Job::register_loss_handler(Position& at) {
  at.state.register_loss_handler();
  own_end().stays.back().registered = plan_.saves;
}

void Job::note_loss(const ControlPlane& plane, const std::string& what) {
  if (simulator_.self().draining) return;
  own_end().stays.back().loss = {since_start(), what};
  if (!plan_.calls_again) return;
  try {
    plane.check();  // as any call
  } catch (const Error&) {
  }
}

// What the program gave to Job::on_rank_lost().
void Job::save(const std::string& what) {
  auto& process = simulator_.self();
  if (process.draining) return;
  bool const on_program_thread = simulator_.runs_program();
  own_end().stays.back().saves.push_back({since_start(), on_program_thread, what});
  if (on_program_thread) simulator_.compute(plan_.ranks[static_cast<std::size_t>(process.rank)].save_time);
}

// As Job::grow(). When the job goes on as before, `at` is as before.
void Job::grow(Position& at) {
  growth_.on_moment(GrowMoment::begins);
  result_.grow_began = since_start();
  auto const note_end = [this] { own_end().grow_ended = since_start(); };
  try {
    muster::Deadline const deadline(grow_deadline);
    auto const ranks = at.session->size();
    if (at.rank() == 0) growth_.invited = true;
    auto const plane = at.plane();
    plane->broadcast("grow", first_ranks(ranks), 0, muster::control::Blob(8, 1), grow_deadline);
    auto network = grow_network(at);
    muster::detail::grow_ranks(network, plane.get(), ranks, deadline);
    note_end();
  } catch (const Error& error) {
    note_end();
    if (error.code() != muster::ErrorCode::deadline || at.plane()->failed()) throw;
    if (!error.reported_elsewhere()) simulator_.print_line(error.what());
  }
}

SimulatedGrowNetwork Job::grow_network(Position& at) {
  auto const processes = static_cast<int>(plan_.ranks.size());
  return {simulator_,
          *network_,
          growth_,
          at.rank(),
          processes,
          at.plane(),
          [this, processes]() -> Session& { return session(1, first_ranks(processes), true); },
          [this, &at](std::shared_ptr<ControlPlane> plane) {
            bool const is_new = at.session == nullptr;
            enter(at, *growth_.grown, at.rank(), std::move(plane));
            if (!is_new) register_loss_handler(at);
            at.has_joined = true;
            at.next_call = *plan_.grow_at + 1;
            own_end().has_grown = true;
          }};
}

// As Job::join() of a new process. Returns its exit code if it does not join.
std::optional<int> Job::join_growth(Position& at) {
  const auto& faults = plan_.faults;
  if (std::any_of(faults.begin(), faults.end(), [&](const Fault& fault) {
        return fault.kind == FaultKind::absent && fault.rank == at.rank();
      }))
    return 0;
  while (!growth_.invited && process(0).state == Process::State::running) simulator_.compute(10ms);
  simulator_.compute(plan_.ranks[static_cast<std::size_t>(at.rank())].start_delay);
  muster::Deadline const deadline(grow_deadline);
  auto network = grow_network(at);
  try {
    network.exchange(deadline);
    auto const connect = [&]() -> ControlPlane& {
      network.connect(deadline);
      return network.enter();
    };
    muster::detail::enter_grown_job(connect, deadline);
    return std::nullopt;
  } catch (const Error& error) {
    network.abandon(error.what());
    if (!error.reported_elsewhere()) simulator_.print_line(error.what());
    return error.exit_code();
  }
}

// As Job::shrink().
void Job::shrink(Position& at, const muster::control::Failure& failure) {
  auto& session = *at.session;
  muster::control::RecoveryConfig config;
  config.rank = at.rank();
  for (const auto& hello : session.roster()) {
    config.names.push_back(muster::bootstrap::describe_rank(hello));
    config.hosts.push_back(hello.host);
  }
  if (failure.lost >= 0 && failure.lost != config.rank)
    (failure.confirmed_dead ? config.ended : config.silent).insert(failure.lost);
  SimulatedSurvivorNetwork survivors(simulator_, *network_, session, config.rank);
  auto const payloads = muster::control::run_recovery(
      survivors, std::move(config), {},
      muster::Deadline(std::chrono::duration_cast<std::chrono::milliseconds>(shrink_deadline)));
  std::vector<int> members;
  int next_rank = 0;
  for (const auto& [survivor, payload] : payloads) {
    if (survivor == at.rank()) next_rank = static_cast<int>(members.size());
    members.push_back(session.members()[static_cast<std::size_t>(survivor)]);
  }
  enter(at, this->session(session.number() + 1, members), next_rank);
  at.has_joined = false;
  at.next_call = 0;
}

Session& Job::session(int number, const std::vector<int>& members, bool grown) {
  auto& session = sessions_[{number, members}];
  if (!session) {
    session = std::make_unique<Session>(simulator_, *network_, plan_, result_.sessions.size(), number,
                                        members, grown);
    result_.sessions.push_back({members, {}});
  }
  return *session;
}

}  // namespace

JobResult run_job(const JobOptions& options) { return Job(options).run(); }

}  // namespace simulator
