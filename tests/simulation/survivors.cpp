// SPDX-License-Identifier: Apache-2.0
#include "survivors.hpp"

namespace simulator {

using namespace std::chrono_literals;
using muster::control::ProcessState;

namespace {

// As in SocketSurvivorNetwork.
constexpr Duration probe_timeout = 1100ms;
constexpr Duration probe_interval = 250ms;
// How often the simulator looks whether the other rank accepts.
constexpr Duration accept_interval = 10ms;

}  // namespace

muster::control::SurvivorNetwork::Connection SimulatedSurvivorNetwork::connect(
    int rank, const muster::Deadline& deadline) {
  auto& other = session_.rank(rank);
  while (!deadline.passed()) {
    simulator_.compute(session_.draw_round_trip(rank_, rank));
    auto const state = session_.state_of(rank_, rank);
    if (state == ProcessState::unknown)
      simulator_.compute(std::min<Duration>(probe_timeout, deadline.remaining()));
    if (state != ProcessState::running) return {nullptr, state};
    if (other.accept && other.process->state == Process::State::running) {
      auto [own_end, other_end] = network_.connect(self(), *other.process, Network::Thread::program);
      simulator_.post_to_program(*other.process, [&other, rank = rank_, channel = other_end] {
        other.accept ? other.accept(rank, channel) : channel->close();
      });
      return {own_end, state};
    }
    simulator_.compute(accept_interval);
  }
  return {nullptr, ProcessState::running};
}

void SimulatedSurvivorNetwork::accept(OnConnect on_connect) {
  session_.rank(rank_).accept = std::move(on_connect);
}

void SimulatedSurvivorNetwork::watch(int rank, OnState on_state) {
  auto& watch = watches_[rank] = std::make_shared<OnState>(std::move(on_state));
  probe(rank, watch, session_.draw_round_trip(rank_, rank));
}

// The watch ends with its entry in watches_. While one lasts, this object does.
void SimulatedSurvivorNetwork::probe(int rank, const std::weak_ptr<OnState>& watch, Duration delay) {
  simulator_.after(delay, [this, rank, watch, &process = self()] {
    if (watch.expired() || process.state != Process::State::running) return;
    auto const state = session_.state_of(rank_, rank);
    if (state == ProcessState::running) return probe(rank, watch, probe_interval);
    simulator_.after(state == ProcessState::ended ? 0s : probe_timeout, [this, rank, watch, state, &process] {
      if (watch.expired()) return;
      simulator_.post_to_program(process, [this, rank, watch, state] {
        auto const on_state = watch.lock();
        if (!on_state) return;
        watches_.erase(rank);
        (*on_state)(state);
      });
    });
  });
}

void SimulatedSurvivorNetwork::run_until(muster::Clock::time_point until, const std::function<bool()>& done) {
  simulator_.run_posted(until, done);
}

void SimulatedSurvivorNetwork::close() {
  session_.rank(rank_).accept = nullptr;
  watches_.clear();
}

// Each message arrives. Ranks that came too late are turned away.
void SimulatedSurvivorNetwork::flush() {
  simulator_.run_posted(muster::Clock::now(), [] { return false; });
}

}  // namespace simulator
