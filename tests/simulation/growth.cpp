// SPDX-License-Identifier: Apache-2.0
#include "growth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "failure/failure.hpp"
#include "protocol/messages.hpp"
#include "roster/roster.hpp"

namespace simulator {

using namespace std::chrono_literals;
using muster::Error;
using muster::ErrorCode;
using muster::control::ControlPlane;
using muster::control::ProcessState;

namespace {

// As in connect_to_leader().
constexpr Duration attempt_timeout = 2s;
constexpr Duration retry_pause = 10ms;

// On rank 0, for another process.
void accept(Growth& growth, int process, const std::shared_ptr<SimulatedChannel>& channel) {
  if (growth.rank_0 == nullptr) return channel->close();
  growth.accepted.push_back(channel);
  channel->start([&growth, process, weak = std::weak_ptr(channel)](
                     const Message&) { growth.hellos.emplace(process, weak.lock()); },
                 [&growth, process](const std::string& reason) {
                   if (growth.hellos.contains(process) && !growth.failure)
                     growth.failure = fmt::format("pid {} ended while it waited for the other ranks ({})",
                                                  first_pid + process, reason);
                 },
                 0ms);
}

}  // namespace

SimulatedGrowNetwork::SimulatedGrowNetwork(Simulator& simulator, Network& network, Growth& growth, int rank,
                                           int size, std::shared_ptr<ControlPlane> plane,
                                           std::function<Session&()> make_session,
                                           std::function<void(std::shared_ptr<ControlPlane>)> on_enter)
    : simulator_(simulator),
      network_(network),
      growth_(growth),
      rank_(rank),
      size_(size),
      plane_(std::move(plane)),
      make_session_(std::move(make_session)),
      on_enter_(std::move(on_enter)) {}

void SimulatedGrowNetwork::exchange(const muster::Deadline& deadline) {
  if (rank_ == 0) return serve(deadline);
  auto const channel = reach_rank_0(deadline);
  bool done = false;
  std::optional<std::string> failure;
  channel->start(
      [&](const Message& message) {
        if (muster::protocol::type_of(message) == muster::protocol::JoinRecords::type)
          done = true;
        else
          failure = muster::protocol::decode<muster::protocol::Failure>(message).text;
      },
      [&](const std::string& reason) { failure = "rank 0 ended or broke the connection (" + reason + ")"; },
      0ms);
  channel->send(encode(muster::protocol::JoinHello{size_, {}}));
  simulator_.run_posted(deadline.when() + 5s, [&] { return done || failure || interrupted(); });
  channel->close();
  if (!done) throw Error(ErrorCode::lost_rank, "join: " + failure.value_or("no records came"));
}

void SimulatedGrowNetwork::serve(const muster::Deadline& deadline) {
  growth_.rank_0 = &simulator_.self();
  auto const complete = [&] { return static_cast<int>(growth_.hellos.size()) == size_ - 1; };
  simulator_.run_posted(deadline.when(), [&] { return complete() || growth_.failure || interrupted(); });
  growth_.rank_0 = nullptr;
  simulator_.run_posted(muster::Clock::now(), [] { return false; });  // processes that came too late
  if (interrupted()) growth_.failure = "a rank was lost while the job grew";
  if (!complete() && !growth_.failure) growth_.failure = describe_missing();
  if (!growth_.failure) {
    growth_.grown = &make_session_();
    growth_.on_moment(GrowMoment::connects);
  }
  for (auto& [process, channel] : growth_.hellos) {
    channel->send(growth_.failure
                      ? encode(muster::protocol::Failure{ErrorCode::lost_rank, 0, *growth_.failure})
                      : encode(muster::protocol::JoinRecords{}));
  }
  for (auto& channel : std::exchange(growth_.accepted, {})) channel->close();
  if (growth_.failure) throw Error(ErrorCode::deadline, "join: " + *growth_.failure);
}

std::string SimulatedGrowNetwork::describe_missing() const {
  std::string text = "ranks are missing:";
  for (int process = 1; process < size_; ++process)
    if (!growth_.hellos.contains(process)) text += fmt::format(" pid {}", first_pid + process);
  return text;
}

// Before the next attempt to connect to `other`. A process that does not answer costs the whole attempt.
void SimulatedGrowNetwork::pause(const Process& other) {
  bool const answers = network_.reaches(simulator_.self(), other) && other.state != Process::State::stopped;
  simulator_.compute(answers ? retry_pause : simulator_.draw_time(0s, attempt_timeout));
}

std::shared_ptr<SimulatedChannel> SimulatedGrowNetwork::reach_rank_0(const muster::Deadline& deadline) {
  while (!interrupted() && !deadline.passed()) {
    auto* const rank_0 = growth_.rank_0;
    bool const answers = rank_0 != nullptr && rank_0->state == Process::State::running &&
                         network_.reaches(simulator_.self(), *rank_0);
    if (!answers) {
      pause(rank_0 != nullptr ? *rank_0 : simulator_.self());
      continue;
    }
    auto [own_end, other_end] = network_.connect(simulator_.self(), *rank_0, Network::Thread::program);
    simulator_.post_to_program(*rank_0, [&growth = growth_, process = simulator_.self().rank,
                                         channel = other_end] { accept(growth, process, channel); });
    return own_end;
  }
  throw Error(ErrorCode::deadline, "join: cannot meet rank 0");
}

void SimulatedGrowNetwork::check_ended(int rank) const {
  if (growth_.grown->state_of(rank_, rank) != ProcessState::ended) return;
  throw muster::control::EndedRankError(muster::control::make_rank_loss(
      growth_.grown->roster()[static_cast<std::size_t>(rank)], 0, {"ended before it was connected", true}));
}

void SimulatedGrowNetwork::connect(const muster::Deadline& deadline) {
  auto& session = *growth_.grown;
  int const leader = session.connects_to(rank_);
  while (rank_ != 0 && !session.accepts(leader)) {
    pause(*session.rank(leader).process);
    if (interrupted()) throw Error(ErrorCode::lost_rank, "a rank was lost while the job grew", true);
    check_ended(0);
    check_ended(leader);
    if (deadline.passed()) throw Error(ErrorCode::deadline, "join: cannot reach the leader");
  }
  grown_ = session.start_plane(rank_, plane_ != nullptr);
  auto const wait = std::max(deadline.remaining(), 100ms);
  plane_ ? muster::detail::await_connections(grown_, *plane_, wait) : grown_->barrier("join", wait);
  grown_->stop_ended_rank_watch();
  growth_.on_moment(GrowMoment::votes);
}

void SimulatedGrowNetwork::abandon(const std::string& why) noexcept {
  if (!grown_) return;
  growth_.grown->stop_accepting(rank_);
  grown_->abort_because(why);
  grown_ = nullptr;
}

ControlPlane& SimulatedGrowNetwork::enter() {
  on_enter_(grown_);
  return *grown_;
}

}  // namespace simulator
