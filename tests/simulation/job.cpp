// SPDX-License-Identifier: Apache-2.0
#include "job.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "program.hpp"
#include "recovery/recovery.hpp"
#include "roster/roster.hpp"
#include "survivors.hpp"

namespace simulator {
namespace {

using namespace std::chrono_literals;
using muster::Error;

class Job {
 public:
  explicit Job(const JobOptions& options);
  JobResult run();

 private:
  void inject(const Fault& fault);
  void on_end(const Process& process);
  int run_program(Process& process);
  std::optional<int> run_session(Session& session, int rank,
                                 std::optional<muster::control::Failure>& failure);
  std::pair<Session*, int> shrink(Session& session, int rank, const muster::control::Failure& failure);
  Session& session(int number, const std::vector<int>& members);
  Process& process(int rank) { return *simulator_.processes()[static_cast<std::size_t>(rank)]; }

  // The programs use all of these until simulator_ has ended.
  JobResult result_;
  std::optional<Network> network_;
  // By number and members: survivors that do not agree come to different ones.
  std::map<std::pair<int, std::vector<int>>, std::unique_ptr<Session>> sessions_;
  JobPlan plan_;
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
}

JobResult Job::run() {
  for (std::size_t r = 0; r < plan_.ranks.size(); ++r)
    simulator_.add_process(plan_.host_of[r], [this, r] { return run_program(process(static_cast<int>(r))); });
  std::vector<int> members(plan_.ranks.size());
  std::iota(members.begin(), members.end(), 0);
  session(0, members);
  for (const auto& fault : plan_.faults) simulator_.after(fault.when, [this, &fault] { inject(fault); });
  simulator_.run(300s);
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
  simulator_.compute(plan_.ranks[static_cast<std::size_t>(process.rank)].start_delay);
  auto* session = sessions_.begin()->second.get();
  int rank = process.rank;
  for (;;) {
    result_.ranks[static_cast<std::size_t>(process.rank)].members = session->members();
    std::optional<muster::control::Failure> loss;
    if (auto const exit_code = run_session(*session, rank, loss)) return *exit_code;
    try {
      std::tie(session, rank) = shrink(*session, rank, *loss);
    } catch (const Error& error) {
      if (!error.reported_elsewhere()) simulator_.print_line(error.what());
      return error.exit_code();
    }
  }
}

// Returns the exit code; nothing after a loss after which the job goes on.
std::optional<int> Job::run_session(Session& session, int rank,
                                    std::optional<muster::control::Failure>& loss) {
  if (session.size() == 1) return 0;  // it has no control plane
  auto const plane = session.start_plane(rank);
  try {
    Program(simulator_, plan_, result_, session, rank, *plane).run();
    plane->leave();
    return 0;
  } catch (const Error& error) {
    loss = plane->failure();
    plane->abort_connections();
    if (!error.reported_elsewhere()) simulator_.print_line(error.what());
    bool const goes_on =
        plan_.after_loss == AfterLoss::shrink && loss && error.code() == muster::ErrorCode::lost_rank;
    if (goes_on) return std::nullopt;
    return error.exit_code();
  } catch (const OwnError& error) {
    plane->abort_with_local_error();
    simulator_.print_line(error.what());
    return 1;
  }
}

// As Job::shrink().
std::pair<Session*, int> Job::shrink(Session& session, int rank, const muster::control::Failure& failure) {
  muster::control::RecoveryConfig config;
  config.rank = rank;
  for (const auto& hello : session.roster()) {
    config.names.push_back(muster::bootstrap::describe_rank(hello));
    config.hosts.push_back(hello.host);
  }
  if (failure.lost >= 0 && failure.lost != rank)
    (failure.confirmed_dead ? config.ended : config.silent).insert(failure.lost);
  SimulatedSurvivorNetwork survivors(simulator_, *network_, session, rank);
  auto const payloads = muster::control::run_recovery(
      survivors, std::move(config), {},
      muster::Deadline(std::chrono::duration_cast<std::chrono::milliseconds>(shrink_deadline)));
  std::vector<int> members;
  int next_rank = 0;
  for (const auto& [survivor, payload] : payloads) {
    if (survivor == rank) next_rank = static_cast<int>(members.size());
    members.push_back(session.members()[static_cast<std::size_t>(survivor)]);
  }
  return {&this->session(session.number() + 1, members), next_rank};
}

Session& Job::session(int number, const std::vector<int>& members) {
  auto& session = sessions_[{number, members}];
  if (!session) session = std::make_unique<Session>(simulator_, *network_, plan_, number, members);
  return *session;
}

}  // namespace

JobResult run_job(const JobOptions& options) { return Job(options).run(); }

}  // namespace simulator
