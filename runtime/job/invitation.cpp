// SPDX-License-Identifier: Apache-2.0
#include "job/invitation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sodium.h>

#include <asio.hpp>
#include <sstream>
#include <utility>

#include "muster/error.hpp"
#include "rendezvous/rendezvous.hpp"
#include "transport/acceptor.hpp"

namespace muster::detail {

std::string Invitation::encode() const {
  return fmt::format("{} {} {} {:02x} {}", rank, size, port, fmt::join(key, ""), fmt::join(addresses, " "));
}

Invitation Invitation::decode(const std::string& text) {
  std::istringstream in(text);
  Invitation invitation;
  std::string key;
  in >> invitation.rank >> invitation.size >> invitation.port >> key;
  std::size_t bytes = 0;
  bool const has_key = key.size() == 2 * invitation.key.size() &&
                       sodium_hex2bin(invitation.key.data(), invitation.key.size(), key.data(), key.size(),
                                      nullptr, &bytes, nullptr) == 0;
  for (std::string address; in >> address;) invitation.addresses.push_back(address);
  if (!has_key || bytes != invitation.key.size() || invitation.port == 0 || invitation.rank < 0 ||
      invitation.rank >= invitation.size || invitation.addresses.empty())
    throw Error(ErrorCode::usage, "join: the invitation is not one of Job::grow()");
  return invitation;
}

std::uint16_t find_free_port() {
  asio::io_context io;
  return control::Acceptor(io, std::vector<std::uint16_t>{0}).port();
}

std::unique_ptr<bootstrap::Bootstrap> make_bootstrap(const Invitation& invitation,
                                                     std::function<bool()> interrupted) {
  bootstrap::RendezvousConfig config;
  config.name = "invitation";
  config.job = fmt::format("grow/{}/{}", invitation.addresses.front(), invitation.port);
  config.rank = invitation.rank;
  config.size = invitation.size;
  config.rank0_host = invitation.addresses.front();
  config.other_hosts.assign(invitation.addresses.begin() + 1, invitation.addresses.end());
  config.ports = {invitation.port};
  config.host_socket = fmt::format("muster/host/{}", config.job);
  config.key = invitation.key;
  config.interrupted = std::move(interrupted);
  return bootstrap::make_rendezvous_bootstrap(std::move(config));
}

}  // namespace muster::detail
