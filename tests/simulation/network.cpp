// SPDX-License-Identifier: Apache-2.0
#include "network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "deadline.hpp"

namespace simulator {

using muster::control::DisconnectCause;

namespace {

// Without heartbeats.
constexpr Duration dead_link_timeout = std::chrono::seconds(10);

}  // namespace

Network::Network(Simulator& simulator, NetworkOptions options) : simulator_(simulator), options_(options) {}

std::pair<std::shared_ptr<SimulatedChannel>, std::shared_ptr<SimulatedChannel>> Network::connect(
    Process& a, Process& b, Thread thread) {
  auto const at_a = std::make_shared<SimulatedChannel>(*this, a, b, thread);
  auto const at_b = std::make_shared<SimulatedChannel>(*this, b, a, thread);
  at_a->other_end_ = at_b;
  at_b->other_end_ = at_a;
  channels_.insert(channels_.end(), {at_a, at_b});
  return {at_a, at_b};
}

bool Network::reaches(const Process& from, const Process& to) const {
  return from.host == to.host || (!isolated_.contains(from.host) && !isolated_.contains(to.host));
}

Duration Network::draw_latency(const Process& from, const Process& to) {
  return simulator_.draw_time(Duration{1000},
                              from.host == to.host ? options_.host_latency : options_.latency);
}

void Network::isolate(int host) {
  isolated_.insert(host);
  for (const auto& channel : channels_)
    if (!reaches(channel->self_, channel->peer_)) notice_silence(channel);
}

void Network::stop(Process& process) {
  simulator_.stop(process);
  // Without heartbeats a stopped process looks well: its kernel still answers.
  for (const auto& channel : channels_)
    if (&channel->peer_ == &process && channel->thread_ == Thread::control) notice_silence(channel);
}

void Network::notice_silence(const std::shared_ptr<SimulatedChannel>& channel) {
  auto const timeout = channel->thread_ == Thread::control ? options_.heartbeat_timeout : dead_link_timeout;
  simulator_.after(timeout - simulator_.draw_time(Duration{0}, timeout / 4), [channel, timeout] {
    if (channel->closed_ || channel->self_.state != Process::State::running) return;
    channel->silent_ = true;
    channel->run_on_thread([channel, timeout] {
      channel->disconnect(
          "silent for " +
          muster::format_duration(std::chrono::duration_cast<std::chrono::milliseconds>(timeout)));
    });
  });
}

void Network::on_end(Process& process) {
  for (const auto& channel : channels_) {
    if (&channel->self_ != &process || channel->closed_) continue;
    channel->closed_ = true;
    channel->send_event([](SimulatedChannel& other) { other.disconnect("End of file"); });
  }
}

void SimulatedChannel::start(OnMessage on_message, OnDisconnect on_disconnect, std::chrono::milliseconds) {
  on_message_ = std::move(on_message);
  on_disconnect_ = std::move(on_disconnect);
  started_ = true;
  for (auto& event : std::exchange(before_start_, {}))
    network_.simulator_.after(Duration{0}, [self = shared_from_this(), event = std::move(event)] {
      self->run_on_thread([self, event] { event(*self); });
    });
}

// Runs `event` at the other end after all that this end sent before, if the network carries it.
void SimulatedChannel::send_event(std::function<void(SimulatedChannel&)> event) {
  auto& simulator = network_.simulator_;
  auto const arrival =
      std::max(simulator.now() + network_.draw_latency(self_, peer_), last_arrival_ + Duration{1});
  last_arrival_ = arrival;
  simulator.after(arrival - simulator.now(), [this, self = shared_from_this(), event = std::move(event)] {
    auto const other = other_end_.lock();
    if (!other || !network_.reaches(self_, peer_)) return;
    if (other->started_) return other->run_on_thread([other, event] { event(*other); });
    other->before_start_.push_back(event);  // without `other`, which would keep itself alive
  });
}

void SimulatedChannel::run_on_thread(std::function<void()> call) {
  auto& simulator = network_.simulator_;
  if (thread_ == Network::Thread::program) return simulator.post_to_program(self_, std::move(call));
  simulator.run_on_control_thread(self_, call);
}

void SimulatedChannel::send(const Message& message) {
  if (closed_) return;
  send_event([message](SimulatedChannel& other) { other.receive(message); });
}

void SimulatedChannel::receive(const Message& message) {
  if (closed_) return;
  auto const self = shared_from_this();
  auto const handler = on_message_;
  try {
    if (handler) handler(message);
  } catch (const std::exception& error) {
    disconnect(error.what());
  }
}

void SimulatedChannel::close() {
  if (closed_) return;
  closed_ = true;
  on_message_ = nullptr;
  on_disconnect_ = nullptr;
  send_event([](SimulatedChannel& other) { other.disconnect("End of file"); });
}

void SimulatedChannel::disconnect(const std::string& reason) {
  if (closed_) return;
  auto const self = shared_from_this();
  auto const on_disconnect = std::move(on_disconnect_);
  close();
  if (on_disconnect) on_disconnect(reason);
}

// As PeerProcess: on the same host the process itself shows how it ended.
DisconnectCause SimulatedChannel::disconnect_cause(const std::string& reason) const {
  DisconnectCause cause;
  // As SecureChannel: another rank may have noticed the silence, and killed the process.
  cause.silent = silent_ || (peer_.stopped > Time{} && network_.simulator_.now() - peer_.stopped >
                                                           network_.options_.heartbeat_timeout / 2);
  bool const is_local = self_.host == peer_.host;
  cause.confirmed_dead = is_local ? peer_.state == Process::State::ended : !silent_;
  if (!is_local) {
    cause.text = silent_ ? fmt::format("is {}: it is stopped, or its host or the way to it is down", reason)
                         : fmt::format("ended or broke its connection without leaving the job ({})", reason);
  } else if (peer_.state == Process::State::ended) {
    cause.text = peer_.exit_code > 128
                     ? fmt::format("was killed by signal {}", peer_.exit_code - 128)
                     : fmt::format("ended with exit code {} without leaving the job", peer_.exit_code);
  } else if (peer_.state == Process::State::stopped) {
    network_.simulator_.kill(peer_);
    cause.confirmed_dead = true;
    cause.text = "is stopped, " + reason;
  } else {
    cause.text = fmt::format("broke its connection though it still runs ({})", reason);
  }
  return cause;
}

}  // namespace simulator
