// SPDX-License-Identifier: Apache-2.0
#include "session.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace simulator {

using namespace std::chrono_literals;
using muster::control::ControlPlane;
using muster::control::ControlPlaneOptions;
using muster::control::ProcessState;

Session::Session(Simulator& simulator, Network& network, const JobPlan& plan, std::size_t id, int number,
                 std::vector<int> members, bool grown)
    : simulator_(simulator),
      network_(network),
      plan_(plan),
      id_(id),
      number_(number),
      grown_(grown),
      members_(std::move(members)) {
  std::map<int, int> leader_of_host;
  for (int r = 0; r < size(); ++r) {
    auto& process = *simulator_.processes()[static_cast<std::size_t>(members_[static_cast<std::size_t>(r)])];
    leaders_.push_back(leader_of_host.emplace(process.host, r).first->second);
    muster::Hello hello;
    hello.rank = r;
    hello.host = fmt::format("h{}", process.host);
    hello.boot_id = hello.host;
    hello.pid = first_pid + process.rank;
    roster_.push_back(hello);
    ranks_.emplace_back().process = &process;
  }
  for (int r = 1; r < size(); ++r)
    std::tie(rank(r).to_leader, rank(r).at_leader) =
        network_.connect(*rank(r).process, *rank(connects_to(r)).process);
}

std::shared_ptr<ControlPlane> Session::start_plane(int own, bool watchdog_paused) {
  auto its_options = options(own);
  its_options.watches_ended_ranks = grown_;
  its_options.watchdog_paused = watchdog_paused;
  auto plane = ControlPlane::simulate(own, std::move(its_options), rank(own).to_leader);
  rank(own).started = true;
  rank(own).plane = plane;
  for (int r = 1; r < size(); ++r)
    if (r == own || leader_of(r) == own || own == 0) admit(r);
  return plane;
}

ControlPlaneOptions Session::options(int own) {
  ControlPlaneOptions options;
  options.roster = roster_;
  options.host_leaders = leaders_;
  options.heartbeat_timeout =
      std::chrono::duration_cast<std::chrono::milliseconds>(plan_.network.heartbeat_timeout);
  options.stall_warning = plan_.stall_warning;
  // Longer than the program calls nothing, in a job that is to keep its ranks.
  options.abort_grace = plan_.after_loss == AfterLoss::shrink && !plan_.grow_at ? 5000ms : 1200ms;
  options.tolerates_losses = plan_.after_loss == AfterLoss::shrink;
  options.query_processes = [this, own](const std::vector<int>& ranks, std::chrono::milliseconds wait, int) {
    return query_processes(own, ranks, wait);
  };
  return options;
}

Duration Session::draw_round_trip(int own, int other) {
  bool const is_local = rank(own).process->host == rank(other).process->host;
  auto const latency = is_local ? plan_.network.host_latency : plan_.network.latency;
  return 2 * simulator_.draw_time(0s, latency);
}

// A connection is refused when the process has ended, and accepted while it is stopped.
ProcessState Session::state_of(int own, int other) {
  const auto& process = *rank(other).process;
  if (!network_.reaches(*rank(own).process, process)) return ProcessState::unknown;
  return process.state == Process::State::ended ? ProcessState::ended : ProcessState::running;
}

std::vector<ProcessState> Session::query_processes(int own, const std::vector<int>& ranks, Duration wait) {
  std::vector<ProcessState> states;
  Duration longest{};
  for (int const other : ranks) {
    auto const round_trip = draw_round_trip(own, other);
    auto const state = round_trip <= wait ? state_of(own, other) : ProcessState::unknown;
    states.push_back(state);
    longest = std::max(longest, state == ProcessState::unknown ? wait : round_trip);
  }
  simulator_.block_control_thread(longest);
  return states;
}

// Once both ranks are there, the leader accepts the other one, unless the job has failed meanwhile.
void Session::admit(int number) {
  auto& own = rank(number);
  auto& leader = rank(connects_to(number));
  if (!own.started || !leader.started || !own.at_leader) return;
  simulator_.after(simulator_.draw_time(0s, plan_.network.latency),
                   [this, number, &leader, channel = std::exchange(own.at_leader, nullptr)] {
                     if (leader.plane.expired()) return turn_away(rank(number), *channel);
                     simulator_.run_on_control_thread(*leader.process, [this, number, &leader, channel] {
                       auto const plane = leader.plane.lock();
                       plane && (grown_ || !plane->failed()) ? plane->admit(number, channel)
                                                             : turn_away(rank(number), *channel);
                     });
                   });
}

// As ControlPlane::connect(): the rank tries again and again until its deadline.
void Session::turn_away(Rank& rank, SimulatedChannel& channel) {
  rank.turned_away = true;
  if (grown_) return channel.close();
  channel.drop();
  rank.to_leader->drop();
  simulator_.after(shrink_deadline, [this, &rank] { simulator_.exit(*rank.process, 75); });
}

}  // namespace simulator
