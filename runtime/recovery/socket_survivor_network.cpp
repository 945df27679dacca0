// SPDX-License-Identifier: Apache-2.0
#include "recovery/socket_survivor_network.hpp"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "log.hpp"
#include "recovery/process_probe.hpp"
#include "transport/connect.hpp"
#include "transport/secure_channel.hpp"

namespace muster::control {
namespace {

using std::chrono::milliseconds;

// How often to probe a rank that runs but has not joined.
constexpr milliseconds probe_interval{250};
// A timer that is later than this was delayed by a busy machine.
constexpr milliseconds max_delay{100};
constexpr milliseconds survivor_flush_timeout{5000};

}  // namespace

// How to find out whether a rank runs: by so many connections at once, since a network may lose the packets
// of some, for so long, if none answers.
struct SocketSurvivorNetwork::ProbeLimits {
  int connections;
  milliseconds time;
};

// Where another rank of the host is silent, probably none of them answers. In that time TCP does not send a
// lost packet again, so there are more connections; otherwise it does, after 1 s.
SocketSurvivorNetwork::ProbeLimits SocketSurvivorNetwork::probe_limits(int rank) const {
  const auto& host = config_.hosts[static_cast<std::size_t>(rank)];
  bool const silent_host = std::any_of(config_.silent.begin(), config_.silent.end(), [&](int silent) {
    return config_.hosts[static_cast<std::size_t>(silent)] == host;
  });
  return silent_host ? ProbeLimits{12, milliseconds{500}} : ProbeLimits{4, milliseconds{1100}};
}

struct SocketSurvivorNetwork::Watch {
  Watch(asio::io_context& io, OnState call) : timer(io), on_state(std::move(call)) {}
  asio::steady_timer timer;
  OnState on_state;
  std::unique_ptr<ProcessProbe> probe;
};

std::vector<Endpoint> SocketSurvivorNetwork::endpoints(int rank) const {
  auto const index = static_cast<std::size_t>(rank);
  return parse_endpoints(config_.addresses[index], config_.ports[index]);
}

SurvivorNetwork::Connection SocketSurvivorNetwork::connect(int rank, const Deadline& deadline) {
  auto const key = purpose_key(config_.key, purpose::recovery, rank);
  while (true) {
    auto const [state, endpoint] = find_state(rank, deadline);
    if (state != ProcessState::running) return {nullptr, state};
    try {
      // The rank may start its own recovery much later; its acceptor already listens.
      auto [socket, keys] = connect_once(io_, config_.rank, {endpoint}, key, deadline);
      return {std::make_shared<SecureChannel>(std::move(socket), keys), state};
    } catch (const Error& error) {
      log::debug("shrink: {}: {}", config_.names[static_cast<std::size_t>(rank)], error.what());
      // Another process has got its port. Otherwise the rank may have dropped a connection that was slow on a
      // busy machine.
      if (error.code() == ErrorCode::environment || deadline.passed()) return {nullptr, state};
    }
    std::this_thread::sleep_for(std::min(retry_pause, deadline.remaining()));
  }
}

std::pair<ProcessState, Endpoint> SocketSurvivorNetwork::find_state(int rank, const Deadline& deadline) {
  auto const all = endpoints(rank);
  auto const limits = probe_limits(rank);
  std::optional<std::pair<ProcessState, Endpoint>> found;
  ProcessProbe const probe(io_, all, limits.connections, [&](ProcessState state, std::size_t endpoint) {
    found = {state, state == ProcessState::running ? all[endpoint] : Endpoint{}};
  });
  run_until(std::min(Clock::now() + limits.time, deadline.when()), [&] { return found.has_value(); });
  return found.value_or(std::pair{ProcessState::unknown, Endpoint{}});
}

void SocketSurvivorNetwork::accept(OnConnect on_connect) {
  acceptor_.open(
      static_cast<int>(config_.ports.size()),
      [this](std::uint32_t rank) {
        return rank < config_.ports.size() && static_cast<int>(rank) != config_.rank;
      },
      purpose_key(config_.key, purpose::recovery, config_.rank),
      [on_connect = std::move(on_connect)](int rank, Socket socket, const SessionKeys& keys) {
        on_connect(rank, std::make_shared<SecureChannel>(std::move(socket), keys));
      });
}

void SocketSurvivorNetwork::watch(int rank, OnState on_state) {
  auto& watch = watches_[rank];
  watch = std::make_shared<Watch>(io_, std::move(on_state));
  probe(rank, watch);
}

void SocketSurvivorNetwork::probe(int rank, const std::weak_ptr<Watch>& watched) {
  auto const watch = watched.lock();
  if (!watch) return;
  auto const limits = probe_limits(rank);
  watch->probe = std::make_unique<ProcessProbe>(
      io_, endpoints(rank), limits.connections,
      [this, rank, watched](ProcessState state, std::size_t) { on_answer(rank, watched, state); });
  call_after(limits.time, watch, [this, rank, watched] { on_answer(rank, watched, ProcessState::unknown); });
}

void SocketSurvivorNetwork::on_answer(int rank, const std::weak_ptr<Watch>& watched, ProcessState state) {
  auto const watch = watched.lock();
  if (!watch) return;
  if (state != ProcessState::running) {
    watches_.erase(rank);
    return watch->on_state(state);
  }
  call_after(probe_interval, watch, [this, rank, watched] { probe(rank, watched); });
}

void SocketSurvivorNetwork::call_after(milliseconds wait, const std::shared_ptr<Watch>& watch,
                                       std::function<void()> call) {
  watch->timer.expires_after(wait);
  watch->timer.async_wait([this, watched = std::weak_ptr(watch), call = std::move(call),
                           when = watch->timer.expiry()](const asio::error_code& stopped) {
    auto const watch = watched.lock();
    if (stopped || !watch || watch->timer.expiry() != when) return;
    // This process itself was not scheduled in time: an answer may wait to be read.
    if (Clock::now() > when + max_delay) return call_after(max_delay, watch, call);
    call();
  });
}

void SocketSurvivorNetwork::run_until(Clock::time_point until, const std::function<bool()>& done) {
  while (!done() && Clock::now() < until) {
    if (io_.stopped()) io_.restart();
    io_.run_one_until(until);
  }
  if (done()) return;
  // What came while this process was not scheduled.
  if (io_.stopped()) io_.restart();
  io_.poll();
}

void SocketSurvivorNetwork::close() {
  acceptor_.stop();
  watches_.clear();
}

void SocketSurvivorNetwork::flush() {
  io_.restart();
  io_.run_for(survivor_flush_timeout);
}

}  // namespace muster::control
