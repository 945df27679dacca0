// SPDX-License-Identifier: Apache-2.0
#include "job_plan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace simulator {
namespace {

using namespace std::chrono_literals;

std::vector<int> all_ranks(std::size_t ranks) {
  std::vector<int> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

class Chooser {
 public:
  Chooser(Simulator& simulator, const JobOptions& options)
      : simulator_(simulator), options_(options), modes_(options.seed), reports_(options.seed + 1) {}

  JobPlan choose() {
    choose_after_loss();
    plan_.first_ranks = options_.ranks > 0 ? options_.ranks : static_cast<int>(simulator_.draw(2, 24));
    auto const count = plan_.first_ranks + (options_.grow ? static_cast<int>(simulator_.draw(1, 4)) : 0);
    plan_.ranks.resize(static_cast<std::size_t>(count));
    choose_hosts();
    choose_calls();
    choose_network();
    options_.grow ? choose_faults_of_growth() : choose_faults();
    if (!options_.plain) choose_stall_warning();
    if (!options_.plain) choose_saves();
    return std::move(plan_);
  }

 private:
  void choose_after_loss();
  void choose_hosts();
  void choose_calls();
  void choose_network();
  void choose_faults();
  void choose_faults_of_growth();
  void choose_stall_warning();
  void choose_saves();
  FaultKind choose_kind();
  void choose_fault(FaultKind kind, Duration when);
  void misbehave(int rank, FaultKind kind);
  int first_of_host(int rank) const;
  bool chance() { return std::bernoulli_distribution(0.5)(modes_); }

  Simulator& simulator_;
  const JobOptions& options_;
  // Their own numbers, so that the other choices of a seed are the same in each mode, and without reports.
  std::mt19937_64 modes_, reports_;
  JobPlan plan_;
  Duration program_length_{};
};

void Chooser::choose_after_loss() {
  auto const number = std::uniform_int_distribution(0, after_loss_kinds - 1)(modes_);
  plan_.after_loss = options_.after_loss ? *options_.after_loss : static_cast<AfterLoss>(number);
  if (options_.grow) plan_.after_loss = AfterLoss::shrink;
  plan_.launcher_delay = std::chrono::milliseconds(std::uniform_int_distribution(1000, 3000)(modes_));
}

void Chooser::choose_hosts() {
  auto const ranks = static_cast<int>(plan_.ranks.size());
  int const ranks_per_host = static_cast<int>(simulator_.draw(1, std::min(ranks, 8)));
  for (int r = 0; r < ranks; ++r) plan_.host_of.push_back(r / ranks_per_host);
}

void Chooser::choose_calls() {
  auto const count = simulator_.draw(3, 12);
  for (int i = 0; i < count; ++i) {
    Call call{static_cast<Call::Kind>(simulator_.draw(0, 8) % 7), all_ranks(plan_.ranks.size()), 0, {}, {}};
    if (call.kind == Call::Kind::gather && plan_.ranks.size() > 2 && simulator_.draw_chance(0.5)) {
      std::erase_if(call.members, [this](int) { return simulator_.draw_chance(0.3); });
      if (call.members.empty()) call.members = {0};
    }
    call.root = call.members[static_cast<std::size_t>(
        simulator_.draw(0, static_cast<std::int64_t>(call.members.size()) - 1))];
    call.wait = std::chrono::milliseconds(simulator_.draw(3000, 30'000));
    // A silence is to be noticed before: the job goes on after a loss only.
    if (plan_.after_loss == AfterLoss::shrink) call.wait += 15s;
    // abort_grace ends a rank that does not notice a loss.
    if (options_.grow && call.kind == Call::Kind::query) call.kind = Call::Kind::barrier;
    call.longest_computation = std::chrono::milliseconds(simulator_.draw(0, 300));
    if (call.kind == Call::Kind::compute && !options_.grow) call.longest_computation *= 5;
    program_length_ += call.longest_computation;
    plan_.calls.push_back(std::move(call));
  }
  if (options_.grow) {
    plan_.grow_at = static_cast<std::size_t>(simulator_.draw(0, count - 1));
    plan_.calls[*plan_.grow_at].kind = Call::Kind::compute;
  }
  for (auto& rank : plan_.ranks) {
    rank.start_delay = simulator_.draw_time(0s, 50ms);
    for (const auto& call : plan_.calls)
      rank.computations.push_back(simulator_.draw_time(0s, call.longest_computation));
  }
}

void Chooser::choose_network() {
  auto const kind = simulator_.draw(0, 19);
  plan_.network.latency = kind == 0  ? simulator_.draw_time(40ms, 300ms)
                          : kind < 4 ? simulator_.draw_time(1ms, 40ms)
                                     : simulator_.draw_time(20us, 500us);
  plan_.network.heartbeat_timeout = std::chrono::milliseconds(simulator_.draw(2000, 10'000));
}

// A job goes on after a loss only: of its program's mistakes nothing is left but the exit.
FaultKind Chooser::choose_kind() {
  auto const kind = static_cast<FaultKind>(simulator_.draw(0, static_cast<int>(FaultKind::link_down)));
  if (plan_.after_loss == AfterLoss::shrink && is_of_program(kind)) return FaultKind::killed;
  // Without another random number, so that the kept jobs stay as they are.
  return kind == FaultKind::skips && options_.seed % 2 == 1 ? FaultKind::leaves : kind;
}

void Chooser::choose_faults() {
  auto const count = options_.fault_count ? *options_.fault_count : simulator_.draw(0, 2);
  // The ranks are connected by then. Some faults come shortly after another one.
  auto when = 150ms + 4 * plan_.network.latency + simulator_.draw_time(0s, program_length_);
  for (int i = 0; i < count; ++i) {
    auto const kind = options_.kind ? *options_.kind : choose_kind();
    choose_fault(kind, when);
    when += simulator_.draw_chance(0.3) ? 0s : simulator_.draw_time(0s, 1s);
    // While the ranks recover from a silence.
    if (plan_.after_loss == AfterLoss::shrink && is_silent(kind) && chance())
      when += plan_.network.heartbeat_timeout;
  }
}

// They come at any time of the growth, most of them close to a moment at which the ranks' decision can
// differ.
void Chooser::choose_faults_of_growth() {
  static constexpr FaultKind kinds[] = {FaultKind::killed,    FaultKind::killed,    FaultKind::stopped,
                                        FaultKind::host_down, FaultKind::link_down, FaultKind::absent};
  auto const count = options_.fault_count ? *options_.fault_count : simulator_.draw(0, 2);
  for (int i = 0; i < count; ++i) {
    auto const kind = options_.kind ? *options_.kind : kinds[simulator_.draw(0, 5)];
    auto const moment = static_cast<GrowMoment>(simulator_.draw(0, 2));
    auto const longest = simulator_.draw_chance(0.3) ? 100ms : 2ms + 6 * plan_.network.latency;
    choose_fault(kind, simulator_.draw_time(0s, longest));
    plan_.faults.back().moment = kind == FaultKind::absent ? GrowMoment::begins : moment;
  }
}

// Most waits are short. A query that compares calls runs at whole seconds, and a silent rank makes it last
// one.
void Chooser::choose_stall_warning() {
  auto const kind = std::uniform_int_distribution(0, 4)(reports_);
  auto const exponent = std::uniform_real_distribution(0.0, 1.0)(reports_);
  constexpr double longest = 50;
  if (kind == 1) plan_.stall_warning = 600'000ms;
  if (kind == 2) plan_.stall_warning = 1000ms * static_cast<int>(1 + 9 * exponent);
  // In tenths of a second, which the line has exactly.
  if (kind >= 3) plan_.stall_warning = 100ms * static_cast<int>(std::pow(longest, exponent));
}

void Chooser::choose_saves() {
  plan_.saves = std::uniform_int_distribution(0, 2)(reports_) > 0;
  plan_.save_deadline = std::chrono::milliseconds(std::uniform_int_distribution(2000, 30'000)(reports_));
  plan_.calls_again = plan_.saves && std::uniform_int_distribution(0, 3)(reports_) == 0;
  bool const takes_time = std::bernoulli_distribution(0.5)(reports_);
  for (auto& rank : plan_.ranks)
    if (takes_time)
      rank.save_time = std::chrono::milliseconds(std::uniform_int_distribution(0, 1000)(reports_));
}

int Chooser::first_of_host(int rank) const {
  auto const& host_of = plan_.host_of;
  auto const host = host_of[static_cast<std::size_t>(rank)];
  return static_cast<int>(std::find(host_of.begin(), host_of.end(), host) - host_of.begin());
}

void Chooser::choose_fault(FaultKind kind, Duration when) {
  auto const ranks = static_cast<int>(plan_.ranks.size());
  bool const of_new_process = kind == FaultKind::absent || (options_.grow && simulator_.draw_chance(0.3));
  int at = static_cast<int>(simulator_.draw(of_new_process ? plan_.first_ranks : 0, ranks - 1));
  bool const of_host = kind == FaultKind::host_down || kind == FaultKind::link_down;
  if (of_host) at = first_of_host(at);
  Fault fault{kind, when, at, {}};
  for (int r = 0; r < ranks; ++r)
    if (of_host ? first_of_host(r) == at : r == at) fault.culprits.push_back(r);
  bool const of_process =
      of_host || kind == FaultKind::killed || kind == FaultKind::stopped || kind == FaultKind::absent;
  if (!of_process) misbehave(at, kind);
  plan_.faults.push_back(std::move(fault));
}

void Chooser::misbehave(int rank, FaultKind kind) {
  auto& culprit = plan_.ranks[static_cast<std::size_t>(rank)];
  culprit.misbehaves = kind;
  culprit.misbehaves_at =
      static_cast<std::size_t>(simulator_.draw(0, static_cast<std::int64_t>(plan_.calls.size()) - 1));
  // Ranks that wait for a value that does not come go on.
  for (auto& call : plan_.calls)
    if (call.kind == Call::Kind::store && call.root == rank) call.kind = Call::Kind::barrier;
  if (kind != FaultKind::differs) return;
  auto& call = plan_.calls[culprit.misbehaves_at];
  call.kind = Call::Kind::all_reduce;
  call.members = all_ranks(plan_.ranks.size());
}

}  // namespace

JobPlan choose_plan(Simulator& simulator, const JobOptions& options) {
  return Chooser(simulator, options).choose();
}

}  // namespace simulator
