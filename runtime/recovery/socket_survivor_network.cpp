// SPDX-License-Identifier: Apache-2.0
#include "recovery/socket_survivor_network.hpp"

#include <algorithm>

#include "log.hpp"
#include "transport/connect.hpp"
#include "transport/secure_channel.hpp"

namespace muster::control {
namespace {

using std::chrono::milliseconds;

// How long to try an address that does not answer at all.
constexpr milliseconds probe_timeout{3000};
// How often to probe a rank that runs but has not joined.
constexpr milliseconds probe_interval{250};
constexpr milliseconds survivor_flush_timeout{5000};

}  // namespace

// Probes a rank that has not joined. A refused connection shows that its process has ended, an accepted one
// that it runs.
struct SocketSurvivorNetwork::Probe {
  Probe(asio::io_context& io, int probed_rank, OnState call)
      : socket(io), timer(io), rank(probed_rank), on_state(std::move(call)) {}
  Socket socket;
  asio::steady_timer timer;
  int rank;
  OnState on_state;
  std::size_t address = 0;
};

std::vector<Endpoint> SocketSurvivorNetwork::endpoints(int rank) const {
  auto const index = static_cast<std::size_t>(rank);
  return parse_endpoints(config_.addresses[index], config_.ports[index]);
}

SurvivorNetwork::Connection SocketSurvivorNetwork::connect(int rank, const Deadline& deadline) {
  auto state = ProcessState::unknown;
  auto const key = purpose_key(config_.key, purpose::recovery, rank);
  for (const auto& endpoint : endpoints(rank)) {
    if (auto const error = probe(io_, endpoint, std::min(probe_timeout, deadline.remaining()))) {
      if (error == asio::error::connection_refused) state = ProcessState::ended;
      continue;
    }
    state = ProcessState::running;
    try {
      // The rank may start its own recovery much later; its acceptor already listens.
      auto [socket, keys] = connect_once(io_, config_.rank, {endpoint}, key, deadline);
      return {std::make_shared<SecureChannel>(std::move(socket), keys), state};
    } catch (const Error& error) {
      log::debug("shrink: {}: {}", config_.names[static_cast<std::size_t>(rank)], error.what());
    }
  }
  return {nullptr, state};
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
  auto& probe = probes_[rank];
  probe = std::make_shared<Probe>(io_, rank, std::move(on_state));
  start_probe(std::shared_ptr(probe));
}

bool SocketSurvivorNetwork::is_current(const std::shared_ptr<Probe>& probe) const {
  auto const found = probes_.find(probe->rank);
  return found != probes_.end() && found->second == probe;
}

void SocketSurvivorNetwork::start_probe(const std::shared_ptr<Probe>& probe) {
  auto const addresses = endpoints(probe->rank);
  if (probe->address >= addresses.size()) return finish_watch(probe, ProcessState::unknown);
  probe->socket = Socket(io_);
  probe->timer.expires_after(probe_timeout);
  probe->timer.async_wait([probe](const asio::error_code& error) {
    asio::error_code ignored;
    if (!error) probe->socket.close(ignored);
  });
  probe->socket.async_connect(addresses[probe->address],
                              [this, probe](const asio::error_code& error) { on_probe_done(probe, error); });
}

void SocketSurvivorNetwork::on_probe_done(const std::shared_ptr<Probe>& probe,
                                          const asio::error_code& error) {
  if (!is_current(probe)) return;
  probe->timer.cancel();
  if (error == asio::error::connection_refused) return finish_watch(probe, ProcessState::ended);
  if (error) {
    ++probe->address;
    return start_probe(probe);
  }
  asio::error_code ignored;
  probe->socket.close(ignored);
  probe->timer.expires_after(probe_interval);
  probe->timer.async_wait([this, probe](const asio::error_code& stopped) {
    if (!stopped && is_current(probe)) start_probe(probe);
  });
}

void SocketSurvivorNetwork::finish_watch(const std::shared_ptr<Probe>& probe, ProcessState state) {
  probes_.erase(probe->rank);
  probe->on_state(state);
}

void SocketSurvivorNetwork::run_until(Clock::time_point until, const std::function<bool()>& done) {
  while (!done() && Clock::now() < until) {
    if (io_.stopped()) io_.restart();
    io_.run_one_until(until);
  }
}

void SocketSurvivorNetwork::close() {
  acceptor_.stop();
  for (auto& [rank, probe] : probes_) {
    asio::error_code ignored;
    probe->socket.close(ignored);
    probe->timer.cancel();
  }
  probes_.clear();
}

void SocketSurvivorNetwork::flush() {
  io_.restart();
  io_.run_for(survivor_flush_timeout);
}

}  // namespace muster::control
