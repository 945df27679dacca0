// SPDX-License-Identifier: Apache-2.0
#include "recovery/survivor_coordinator.hpp"

#include <fmt/format.h>

#include "failure/failure.hpp"
#include "log.hpp"
#include "transport/connect.hpp"

namespace muster::control {
namespace {

using std::chrono::milliseconds;

// How long a host that does not answer at all is tried.
constexpr milliseconds probe_time{3000};
// How often a rank that runs but has not come is looked at.
constexpr milliseconds between_looks{250};
constexpr milliseconds farewell_time{5000};

}  // namespace

// A rank that has not come: a connection that its host refuses shows that its process has ended, one that is
// taken that it runs.
struct ReunionLeader::Probe {
  Probe(asio::io_context& io, int of) : socket(io), timer(io), rank(of) {}
  Socket socket;
  asio::steady_timer timer;
  int rank;
  std::size_t address = 0;
};

ReunionLeader::ReunionLeader(asio::io_context& io, AuthenticatingAcceptor& gate, RecoveryConfig plan,
                             const std::vector<std::uint8_t>& mine)
    : io_(io), gate_(gate), plan_(std::move(plan)) {
  words_[plan_.rank] = mine;
  int const size = static_cast<int>(plan_.ports.size());
  gate_.open(
      size,
      [this](std::uint32_t rank) {
        return rank < plan_.ports.size() && static_cast<int>(rank) != plan_.rank;
      },
      plan_.key,
      [this](int rank, Socket socket, const SessionKeys& keys) { admit(rank, std::move(socket), keys); });
  for (int rank = 0; rank < size; ++rank)
    if (rank != plan_.rank && !plan_.ended.contains(rank) && !plan_.silent.contains(rank)) probe(rank);
}

SurvivorRendezvous::Words ReunionLeader::run(const Deadline& deadline) {
  while (!complete() && !deadline.passed()) {
    if (io_.stopped()) io_.restart();
    io_.run_one_until(deadline.when());
  }
  done_ = true;
  if (!are_enough()) {
    Failure const failure{
        ErrorCode::lost_rank, plan_.rank,
        fmt::format(
            "shrink: {} of {} ranks are left here, too few to go on: the others may be cut off and go "
            "on themselves; not here: {}",
            words_.size(), plan_.ports.size(), those_missing())};
    for (auto& [rank, channel] : channels_) channel->send(to_message(failure));
    say_goodbye();
    throw Error(failure.code, failure.text);
  }
  Message survivors{{"is", "survivors"}, {"words", Message::object()}};
  for (const auto& [rank, word] : words_) survivors["words"][std::to_string(rank)] = Message::binary(word);
  for (auto& [rank, channel] : channels_) channel->send(survivors);
  say_goodbye();
  return words_;
}

void ReunionLeader::admit(int rank, Socket socket, const SessionKeys& keys) {
  auto channel = std::make_shared<SecureChannel>(std::move(socket), keys);
  if (auto const old = channels_.extract(rank)) old.mapped()->close();
  channels_.emplace(rank, channel);
  channel->start([this, rank](const Message& message) { hear(rank, message); },
                 [this, rank](const std::string&) {
                   if (done_) return;
                   channels_.erase(rank);
                   words_.erase(rank);
                   probe(rank);
                 });
}

void ReunionLeader::hear(int rank, const Message& message) {
  if (message.at("is") != "survivor") return;
  words_[rank] = message.at("word").get_binary();
  for (const auto& ended : message.at("ended")) {
    int const who = ended.get<int>();
    if (words_.contains(who)) continue;
    plan_.ended.insert(who);
    probes_.erase(who);
  }
  plan_.ended.erase(rank);
  plan_.silent.erase(rank);
  probes_.erase(rank);
  log::debug("shrink: {} is here", plan_.names[static_cast<std::size_t>(rank)]);
}

void ReunionLeader::probe(int rank) {
  auto const index = static_cast<std::size_t>(rank);
  auto& kept = probes_[rank];
  if (!kept) kept = std::make_shared<Probe>(io_, rank);
  auto const probe = kept;
  auto const endpoints = endpoints_of(plan_.addresses[index], plan_.ports[index]);
  if (probe->address >= endpoints.size()) {  // none of them answers
    plan_.silent.insert(rank);
    probes_.erase(rank);
    return;
  }
  probe->socket = Socket(io_);
  probe->timer.expires_after(probe_time);
  probe->timer.async_wait([probe](const asio::error_code& error) {
    asio::error_code ignored;
    if (!error) probe->socket.close(ignored);
  });
  probe->socket.async_connect(endpoints[probe->address],
                              [this, probe](const asio::error_code& error) { concluded(probe, error); });
}

void ReunionLeader::concluded(const std::shared_ptr<Probe>& probe, const asio::error_code& error) {
  auto const found = probes_.find(probe->rank);
  if (done_ || found == probes_.end() || found->second != probe) return;
  probe->timer.cancel();
  if (error == asio::error::connection_refused) {
    plan_.ended.insert(probe->rank);
    probes_.erase(found);
    return;
  }
  if (error) {
    ++probe->address;
    return this->probe(probe->rank);
  }
  asio::error_code ignored;
  probe->socket.close(ignored);
  probe->timer.expires_after(between_looks);
  probe->timer.async_wait([this, probe](const asio::error_code& stopped) {
    auto const still = probes_.find(probe->rank);
    if (!stopped && !done_ && still != probes_.end() && still->second == probe) this->probe(probe->rank);
  });
}

bool ReunionLeader::complete() const {
  for (int rank = 0; rank < static_cast<int>(plan_.ports.size()); ++rank)
    if (!words_.contains(rank) && !plan_.ended.contains(rank) && !plan_.silent.contains(rank)) return false;
  return true;
}

bool ReunionLeader::are_enough() const {
  auto const possible = plan_.ports.size() - plan_.ended.size();
  int lowest = 0;
  while (plan_.ended.contains(lowest)) ++lowest;
  return 2 * words_.size() > possible || (2 * words_.size() == possible && words_.contains(lowest));
}

std::string ReunionLeader::those_missing() const {
  std::string text;
  for (int rank = 0; rank < static_cast<int>(plan_.ports.size()); ++rank) {
    if (words_.contains(rank) || plan_.ended.contains(rank)) continue;
    if (!text.empty()) text += ", ";
    text += plan_.names[static_cast<std::size_t>(rank)];
  }
  return text;
}

// Lets what was sent go out.
void ReunionLeader::say_goodbye() {
  gate_.close();
  for (auto& [rank, probe] : probes_) {
    asio::error_code ignored;
    probe->socket.close(ignored);
    probe->timer.cancel();
  }
  probes_.clear();
  for (auto& [rank, channel] : channels_) channel->close();
  channels_.clear();
  if (io_.stopped()) io_.restart();
  io_.run_for(farewell_time);
}

}  // namespace muster::control
