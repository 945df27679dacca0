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

std::string rank_socket_name(const control::Key& key, const std::string& host_socket) {
  return control::local_name(key) + "/" + host_socket;
}

// Which rank leads a host is not known before.
control::Key host_key(const control::Key& key, const std::string& host_socket) {
  return control::purpose_key(key, std::string(control::purpose::rendezvous) + " of " + host_socket, -1);
}

}  // namespace

HostLeader::HostLeader(asio::io_context& io, const RendezvousConfig& config)
    : io_(io),
      job_(config.job),
      host_socket_(config.host_socket),
      size_(config.size),
      key_acceptor_(std::make_unique<control::Acceptor>(io, host_socket_)),
      codec_(make_peercred_codec()) {}

std::unique_ptr<HostLeader> HostLeader::try_become_leader(asio::io_context& io,
                                                          const RendezvousConfig& config) {
  try {
    return std::unique_ptr<HostLeader>(new HostLeader(io, config));
  } catch (const Error&) {
    return nullptr;
  }
}

// The kernel accepts connections for a stopped process too, and reports its pid.
bool HostLeader::leader_is_usable(asio::io_context& io, const RendezvousConfig& config) {
  auto const endpoint = control::local_endpoint(config.host_socket);
  control::Socket socket(io);
  asio::error_code error;
  socket.open(endpoint.protocol(), error);
  if (!error) socket.native_non_blocking(true, error);
  if (error ||
      ::connect(socket.native_handle(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0)
    return true;  // it does not listen yet, or has gone
  auto const state = control::ProcessHandle::from_peer(socket).state();
  return control::is_own_user(socket) && state != 'T' && state != 't';
}

void HostLeader::open(const control::Key& key, OnMessage on_message, OnDisconnect on_disconnect) {
  on_message_ = std::move(on_message);
  on_disconnect_ = std::move(on_disconnect);
  rank_acceptor_ =
      std::make_unique<control::AuthenticatingAcceptor>(io_, rank_socket_name(key, host_socket_));
  auto const ranks = static_cast<std::uint32_t>(size_);
  rank_acceptor_->open(
      size_, [ranks](std::uint32_t rank) { return rank > 0 && rank < ranks; }, host_key(key, host_socket_),
      [this](int rank, control::Socket socket, const control::SessionKeys& keys) {
        admit(rank, std::move(socket), keys);
      });
  key_server_ = std::make_unique<KeyServer>(std::move(key_acceptor_), *codec_, job_, size_,
                                            JobCredentials{key, 0}, nullptr);
}

void HostLeader::admit(int rank, control::Socket socket, const control::SessionKeys& keys) {
  // Two processes may claim to be one rank. Both stay connected: rank 0 sends both the error.
  auto const channel =
      channels_.emplace_back(std::make_shared<control::SecureChannel>(std::move(socket), keys));
  // A rank that has sent nothing yet may have timed out in the handshake and connected again.
  auto const has_sent = std::make_shared<bool>(false);
  channel->start(
      [this, rank, has_sent](const Message& message) {
        *has_sent = true;
        on_message_(rank, message);
      },
      [this, rank, has_sent](const std::string& reason) {
        if (*has_sent) on_disconnect_(rank, reason);
      });
}

void HostLeader::broadcast(const Message& message) {
  for (const auto& channel : channels_) channel->send(message);
}

void HostLeader::close() {
  if (key_server_) key_server_->close();
  if (rank_acceptor_) rank_acceptor_->close();
  for (const auto& channel : channels_) channel->close();
  channels_.clear();
}

Connection HostLeader::join(asio::io_context& io, const RendezvousConfig& config, const Deadline& deadline) {
  auto const codec = make_peercred_codec();
  auto const& name = config.host_socket;
  auto const [credentials, from] =
      request_job_key(io, {control::local_endpoint(name)}, *codec, config.job, config.rank, deadline);
  return control::connect_once(io, config.rank,
                               {control::local_endpoint(rank_socket_name(credentials.key, name))},
                               host_key(credentials.key, name), deadline);
}

}  // namespace muster::bootstrap
