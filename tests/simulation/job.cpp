// SPDX-License-Identifier: Apache-2.0
#include "job.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "growth.hpp"
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
  int rank = 0;
  std::shared_ptr<ControlPlane> plane{};  // null until it has connected
  bool has_joined = false;
  std::size_t next_call = 0;
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
  std::optional<int> run_session(Position& at, std::optional<muster::control::Failure>& failure);
  void grow(Position& at);
  SimulatedGrowNetwork grow_network(Position& at);
  std::optional<int> join_growth(Position& at);
  void shrink(Position& at, const muster::control::Failure& failure);
  Session& session(int number, const std::vector<int>& members, bool grown = false);
  Process& process(int rank) { return *simulator_.processes()[static_cast<std::size_t>(rank)]; }
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
    if (moment) result_.faults[i].when += muster::Clock::now() - simulator_.start();
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
  result_.launcher_kills = muster::Clock::now() - simulator_.start() + plan_.launcher_delay;
  simulator_.after(plan_.launcher_delay, [this] {
    for (const auto& process : simulator_.processes()) simulator_.kill(*process);
  });
}

int Job::run_program(Process& process) {
  Position at{sessions_.begin()->second.get(), process.rank};
  if (process.rank >= plan_.first_ranks) {
    if (auto const exit_code = join_growth(at)) return *exit_code;
  }
  simulator_.compute(plan_.ranks[static_cast<std::size_t>(process.rank)].start_delay);
  for (;;) {
    own_end().members = at.session->members();
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
  if (!at.plane) at.plane = at.session->start_plane(at.rank);
  try {
    for (;;) {
      auto const plane = at.plane;
      Program program(simulator_, plan_, result_, *at.session, at.rank, *plane);
      while (at.plane == plane) {
        auto const grows = program.run(at.next_call, at.has_joined);
        if (!grows) {
          plane->leave();
          return 0;
        }
        at.next_call = *grows + 1;
        grow(at);
      }
    }
  } catch (const Error& error) {
    loss = at.plane->failure();
    at.session->stop_accepting(at.rank);
    at.plane->abort_connections();
    if (!error.reported_elsewhere()) simulator_.print_line(error.what());
    bool const goes_on =
        plan_.after_loss == AfterLoss::shrink && loss && error.code() == muster::ErrorCode::lost_rank;
    if (goes_on) return std::nullopt;
    return error.exit_code();
  } catch (const OwnError& error) {
    at.plane->abort_with_local_error();
    simulator_.print_line(error.what());
    return 1;
  }
}

// As Job::grow(). When the job goes on as before, `at` is as before.
void Job::grow(Position& at) {
  growth_.on_moment(GrowMoment::begins);
  result_.grow_began = muster::Clock::now() - simulator_.start();
  auto const note_end = [this] { own_end().grow_ended = muster::Clock::now() - simulator_.start(); };
  try {
    muster::Deadline const deadline(grow_deadline);
    auto const ranks = at.session->size();
    if (at.rank == 0) growth_.invited = true;
    at.plane->broadcast("grow", first_ranks(ranks), 0, muster::control::Blob(8, 1), grow_deadline);
    auto network = grow_network(at);
    muster::detail::grow_ranks(network, at.plane.get(), ranks, deadline);
    note_end();
  } catch (const Error& error) {
    note_end();
    if (error.code() != muster::ErrorCode::deadline || at.plane->failed()) throw;
    if (!error.reported_elsewhere()) simulator_.print_line(error.what());
  }
}

SimulatedGrowNetwork Job::grow_network(Position& at) {
  auto const processes = static_cast<int>(plan_.ranks.size());
  return {simulator_,
          *network_,
          growth_,
          at.rank,
          processes,
          at.plane,
          [this, processes]() -> Session& { return session(1, first_ranks(processes), true); },
          [this, &at](std::shared_ptr<ControlPlane> plane) {
            at = {growth_.grown, at.rank, std::move(plane), true, *plan_.grow_at + 1};
            own_end().members = at.session->members();
            own_end().has_grown = true;
          }};
}

// As Job::join() of a new process. Returns its exit code if it does not join.
std::optional<int> Job::join_growth(Position& at) {
  const auto& faults = plan_.faults;
  if (std::any_of(faults.begin(), faults.end(), [&](const Fault& fault) {
        return fault.kind == FaultKind::absent && fault.rank == at.rank;
      }))
    return 0;
  while (!growth_.invited && process(0).state == Process::State::running) simulator_.compute(10ms);
  simulator_.compute(plan_.ranks[static_cast<std::size_t>(at.rank)].start_delay);
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
  config.rank = at.rank;
  for (const auto& hello : session.roster()) {
    config.names.push_back(muster::bootstrap::describe_rank(hello));
    config.hosts.push_back(hello.host);
  }
  if (failure.lost >= 0 && failure.lost != at.rank)
    (failure.confirmed_dead ? config.ended : config.silent).insert(failure.lost);
  SimulatedSurvivorNetwork survivors(simulator_, *network_, session, at.rank);
  auto const payloads = muster::control::run_recovery(
      survivors, std::move(config), {},
      muster::Deadline(std::chrono::duration_cast<std::chrono::milliseconds>(shrink_deadline)));
  std::vector<int> members;
  int next_rank = 0;
  for (const auto& [survivor, payload] : payloads) {
    if (survivor == at.rank) next_rank = static_cast<int>(members.size());
    members.push_back(session.members()[static_cast<std::size_t>(survivor)]);
  }
  at = {&this->session(session.number() + 1, members), next_rank};
}

Session& Job::session(int number, const std::vector<int>& members, bool grown) {
  auto& session = sessions_[{number, members}];
  if (!session) session = std::make_unique<Session>(simulator_, *network_, plan_, number, members, grown);
  return *session;
}

}  // namespace

JobResult run_job(const JobOptions& options) { return Job(options).run(); }

}  // namespace simulator
