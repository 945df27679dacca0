// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/host_leader.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include "log.hpp"
#include "muster/error.hpp"
#include "transport/connect.hpp"
#include "transport/process_handle.hpp"

namespace muster::bootstrap {
namespace {

using control::Message;

std::string socket_of(const RendezvousConfig& plan, int succession) {
  return succession == 0 ? plan.host_socket : fmt::format("{}/{}", plan.host_socket, succession);
}

// Only who has the key can know it before it is there.
std::string gate_name(const control::Key& key, const std::string& host_socket) {
  return control::local_name(key, -1) + "/" + host_socket;
}

}  // namespace

HostLeader::HostLeader(asio::io_context& io, const RendezvousConfig& plan, int succession)
    : io_(io),
      job_(plan.job),
      host_socket_(socket_of(plan, succession)),
      size_(plan.size),
      door_(std::make_unique<control::Acceptor>(io, host_socket_)),
      seal_(make_peercred_codec()) {}

std::unique_ptr<HostLeader> HostLeader::try_first(asio::io_context& io, const RendezvousConfig& plan,
                                                    int succession) {
  try {
    return std::unique_ptr<HostLeader>(new HostLeader(io, plan, succession));
  } catch (const Error&) {
    return nullptr;
  }
}

// The kernel takes connections for a stopped process, too, and says whose they are.
bool HostLeader::first_is_stopped(asio::io_context& io, const RendezvousConfig& plan, int succession) {
  auto const endpoint = control::local_endpoint(socket_of(plan, succession));
  control::Socket socket(io);
  asio::error_code error;
  socket.open(endpoint.protocol(), error);
  if (!error) socket.native_non_blocking(true, error);
  if (error ||
      ::connect(socket.native_handle(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0)
    return false;
  auto const state = control::ProcessHandle::peer_of(socket).state();
  return state == 'T' || state == 't';
}

void HostLeader::open(const control::Key& key, Hear hear, Lose lose) {
  hear_ = std::move(hear);
  lose_ = std::move(lose);
  gate_ = std::make_unique<control::AuthenticatingAcceptor>(io_, gate_name(key, host_socket_));
  auto const ranks = static_cast<std::uint32_t>(size_);
  gate_->open(
      size_, [ranks](std::uint32_t rank) { return rank > 0 && rank < ranks; }, key,
      [this](int rank, control::Socket socket, const control::SessionKeys& keys) {
        admit(rank, std::move(socket), keys);
      });
  desk_ = std::make_unique<KeyServer>(std::move(door_), *seal_, job_, size_, JobCredentials{key, 0}, nullptr);
}

void HostLeader::admit(int rank, control::Socket socket, const control::SessionKeys& keys) {
  // Two processes that say that they are one rank both count: rank 0 tells them so.
  auto const channel = channels_.emplace_back(std::make_shared<control::SecureChannel>(std::move(socket), keys));
  // Before it said something it may have given up a welcome that took too long, and come again.
  auto const spoken = std::make_shared<bool>(false);
  channel->start(
      [this, rank, spoken](const Message& message) {
        *spoken = true;
        hear_(rank, message);
      },
      [this, rank, spoken](const std::string& reason) {
        if (*spoken) lose_(rank, reason);
      });
}

void HostLeader::tell(const Message& message) {
  for (const auto& channel : channels_) channel->send(message);
}

void HostLeader::close() {
  if (desk_) desk_->close();
  if (gate_) gate_->close();
  for (const auto& channel : channels_) channel->close();
  channels_.clear();
}

Connection HostLeader::join(asio::io_context& io, const RendezvousConfig& plan, int succession,
                             const Deadline& deadline) {
  auto const seal = make_peercred_codec();
  auto const name = socket_of(plan, succession);
  auto const ticket = request_job_key(io, control::local_endpoint(name), *seal, plan.job, plan.rank, deadline);
  return control::connect_once(io, plan.rank, control::local_endpoint(gate_name(ticket.key, name)),
                               ticket.key, deadline);
}

}  // namespace muster::bootstrap
