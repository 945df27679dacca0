// SPDX-License-Identifier: Apache-2.0
#include "recovery/survivor_coordinator.hpp"

#include <fmt/format.h>

#include "failure/failure.hpp"
#include "log.hpp"
#include "transport/connect.hpp"

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
struct SurvivorCoordinator::Probe {
  Probe(asio::io_context& io, int probed_rank) : socket(io), timer(io), rank(probed_rank) {}
  Socket socket;
  asio::steady_timer timer;
  int rank;
  std::size_t address = 0;
};

SurvivorCoordinator::SurvivorCoordinator(asio::io_context& io, AuthenticatingAcceptor& acceptor,
                                         RecoveryConfig config, const std::vector<std::uint8_t>& mine)
    : io_(io), acceptor_(acceptor), config_(std::move(config)) {
  payloads_[config_.rank] = mine;
  int const size = static_cast<int>(config_.ports.size());
  acceptor_.open(
      size,
      [this](std::uint32_t rank) {
        return rank < config_.ports.size() && static_cast<int>(rank) != config_.rank;
      },
      purpose_key(config_.key, purpose::recovery, config_.rank),
      [this](int rank, Socket socket, const SessionKeys& keys) { admit(rank, std::move(socket), keys); });
  for (int rank = 0; rank < size; ++rank)
    if (rank != config_.rank && !config_.ended.contains(rank) && !config_.silent.contains(rank)) probe(rank);
}

SurvivorRendezvous::Payloads SurvivorCoordinator::run(const Deadline& deadline) {
  while (!complete() && !deadline.passed()) {
    if (io_.stopped()) io_.restart();
    io_.run_one_until(deadline.when());
  }
  done_ = true;
  if (!has_quorum()) {
    Failure const failure{
        ErrorCode::lost_rank, config_.rank,
        fmt::format("shrink: {} of {} ranks are left here, too few to go on: the other ranks may be cut off "
                    "and go on without these; missing: {}",
                    payloads_.size(), config_.ports.size(), describe_missing())};
    for (auto& [rank, channel] : channels_) channel->send(encode(failure));
    close_all();
    throw Error(failure.code, failure.text);
  }
  auto const survivors = encode(protocol::Survivors{{payloads_.begin(), payloads_.end()}});
  for (auto& [rank, channel] : channels_) channel->send(survivors);
  close_all();
  return payloads_;
}

void SurvivorCoordinator::admit(int rank, Socket socket, const SessionKeys& keys) {
  auto channel = std::make_shared<SecureChannel>(std::move(socket), keys);
  if (auto const old = channels_.extract(rank)) old.mapped()->close();
  channels_.emplace(rank, channel);
  channel->start([this, rank](const Message& message) { on_message(rank, message); },
                 [this, rank](const std::string&) {
                   if (done_) return;
                   channels_.erase(rank);
                   payloads_.erase(rank);
                   probe(rank);
                 });
}

void SurvivorCoordinator::on_message(int rank, const Message& message) {
  if (protocol::type_of(message) != protocol::Survivor::type) return;
  auto const survivor = protocol::decode<protocol::Survivor>(message);
  payloads_[rank] = survivor.payload;
  for (int const other : survivor.ended) {
    if (payloads_.contains(other)) continue;
    config_.ended.insert(other);
    probes_.erase(other);
  }
  config_.ended.erase(rank);
  config_.silent.erase(rank);
  probes_.erase(rank);
  log::debug("shrink: {} is here", config_.names[static_cast<std::size_t>(rank)]);
}

void SurvivorCoordinator::probe(int rank) {
  auto const index = static_cast<std::size_t>(rank);
  auto& slot = probes_[rank];
  if (!slot) slot = std::make_shared<Probe>(io_, rank);
  auto const probe = slot;
  auto const endpoints = parse_endpoints(config_.addresses[index], config_.ports[index]);
  if (probe->address >= endpoints.size()) {  // no address answers
    config_.silent.insert(rank);
    probes_.erase(rank);
    return;
  }
  probe->socket = Socket(io_);
  probe->timer.expires_after(probe_timeout);
  probe->timer.async_wait([probe](const asio::error_code& error) {
    asio::error_code ignored;
    if (!error) probe->socket.close(ignored);
  });
  probe->socket.async_connect(endpoints[probe->address],
                              [this, probe](const asio::error_code& error) { on_probe_done(probe, error); });
}

void SurvivorCoordinator::on_probe_done(const std::shared_ptr<Probe>& probe, const asio::error_code& error) {
  auto const found = probes_.find(probe->rank);
  if (done_ || found == probes_.end() || found->second != probe) return;
  probe->timer.cancel();
  if (error == asio::error::connection_refused) {
    config_.ended.insert(probe->rank);
    probes_.erase(found);
    return;
  }
  if (error) {
    ++probe->address;
    return this->probe(probe->rank);
  }
  asio::error_code ignored;
  probe->socket.close(ignored);
  probe->timer.expires_after(probe_interval);
  probe->timer.async_wait([this, probe](const asio::error_code& stopped) {
    auto const current = probes_.find(probe->rank);
    if (!stopped && !done_ && current != probes_.end() && current->second == probe) this->probe(probe->rank);
  });
}

bool SurvivorCoordinator::complete() const {
  for (int rank = 0; rank < static_cast<int>(config_.ports.size()); ++rank)
    if (!payloads_.contains(rank) && !config_.ended.contains(rank) && !config_.silent.contains(rank))
      return false;
  return true;
}

bool SurvivorCoordinator::has_quorum() const {
  auto const possible = config_.ports.size() - config_.ended.size();
  int lowest = 0;
  while (config_.ended.contains(lowest)) ++lowest;
  return 2 * payloads_.size() > possible || (2 * payloads_.size() == possible && payloads_.contains(lowest));
}

std::string SurvivorCoordinator::describe_missing() const {
  std::string text;
  for (int rank = 0; rank < static_cast<int>(config_.ports.size()); ++rank) {
    if (payloads_.contains(rank) || config_.ended.contains(rank)) continue;
    if (!text.empty()) text += ", ";
    text += config_.names[static_cast<std::size_t>(rank)];
  }
  return text;
}

// Waits until queued messages are sent.
void SurvivorCoordinator::close_all() {
  acceptor_.close();
  for (auto& [rank, probe] : probes_) {
    asio::error_code ignored;
    probe->socket.close(ignored);
    probe->timer.cancel();
  }
  probes_.clear();
  for (auto& [rank, channel] : channels_) channel->close();
  channels_.clear();
  if (io_.stopped()) io_.restart();
  io_.run_for(survivor_flush_timeout);
}

}  // namespace muster::control
