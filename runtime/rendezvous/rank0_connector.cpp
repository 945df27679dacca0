// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/rank0_connector.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "log.hpp"
#include "transport/connect.hpp"
#include "transport/fd_limit.hpp"

namespace muster::bootstrap {
namespace {

using control::Endpoint;
using std::chrono::milliseconds;

// At most so many endpoints are tried at once: each takes a descriptor.
constexpr std::size_t most_side_by_side = 128;
// How long they may take.
constexpr milliseconds attempt_timeout{2000};
// After this many passes without rank 0 on its host, the other hosts are tried too.
constexpr int passes_on_rank0_host = 6;

// The endpoints of a host at these ports; none, with `reason` set, when its name has no address by the
// deadline.
std::vector<Endpoint> resolve_endpoints(const std::string& host, const std::vector<std::uint16_t>& ports,
                                        const Deadline& deadline, std::string& reason) {
  struct Answer {
    std::vector<asio::ip::address> addresses;
    std::string reason;
  };
  // The system's resolver has its own time limits, so it runs on a second thread.
  auto const answer = std::make_shared<Answer>();
  auto const done = run_bounded(
      [answer, host] {
        asio::io_context io;
        asio::error_code error;
        for (const auto& entry : asio::ip::tcp::resolver(io).resolve(host, "", error))
          answer->addresses.push_back(entry.endpoint().address());
        answer->reason = error ? error.message() : "";
        return 0;
      },
      deadline);
  if (!done || answer->addresses.empty()) {
    reason = fmt::format("cannot find the address of {} ({})", host,
                         done ? answer->reason : "the resolver does not answer");
    return {};
  }
  std::vector<Endpoint> endpoints;
  for (auto const port : ports)
    for (const auto& address : answer->addresses) endpoints.push_back(control::tcp_endpoint(address, port));
  return endpoints;
}

}  // namespace

const std::vector<Endpoint>& Rank0Connector::endpoints(const Deadline& deadline) {
  if (!config_.local_name.empty()) {
    if (endpoints_.empty()) endpoints_ = control::local_endpoints(config_.local_name);
    return endpoints_;
  }
  if (endpoints_.empty())
    endpoints_ = resolve_endpoints(config_.rank0_host, config_.ports, deadline, last_error_);
  if (++passes_ > passes_on_rank0_host && !includes_other_hosts_) {
    includes_other_hosts_ = true;
    std::string unused;
    for (const auto& host : config_.other_hosts) {
      auto const more = resolve_endpoints(host, config_.ports, deadline, unused);
      endpoints_.insert(endpoints_.end(), more.begin(), more.end());
    }
  }
  return endpoints_;
}

Rank0Connector::AuthenticatedConnection Rank0Connector::authenticate(const std::vector<Endpoint>& endpoints,
                                                                     const control::Key& key,
                                                                     const Deadline& deadline) {
  auto const proof_key = control::purpose_key(key, control::purpose::rendezvous, 0);
  return {control::connect_once(io_, config_.rank, endpoints, proof_key, deadline), key};
}

std::optional<Rank0Connector::AuthenticatedConnection> Rank0Connector::try_connect(const Deadline& deadline) {
  auto const all = endpoints(deadline);
  // MUNGE needs descriptors, too, while the connections are open.
  auto const side_by_side = std::max<std::size_t>(control::free_descriptors(2 * most_side_by_side) / 2, 1);
  for (std::size_t at = 0; at < all.size() && !deadline.passed(); at += side_by_side) {
    std::vector<Endpoint> const some(
        all.begin() + static_cast<std::ptrdiff_t>(at),
        all.begin() + static_cast<std::ptrdiff_t>(std::min(at + side_by_side, all.size())));
    if (auto authenticated = try_endpoints(some, Deadline(std::min(attempt_timeout, deadline.remaining()))))
      return authenticated;
  }
  return std::nullopt;
}

// Strangers and other jobs may listen on any of the ports.
std::optional<Rank0Connector::AuthenticatedConnection> Rank0Connector::try_endpoints(
    const std::vector<Endpoint>& some, const Deadline& deadline) {
  try {
    if (!config_.codec) return authenticate(some, config_.key.value(), deadline);
    auto const [credentials, endpoint] =
        request_job_key(io_, some, *config_.codec, config_.job, config_.rank, deadline);
    auto const rank_endpoint = control::is_local(endpoint)
                                   ? control::tcp_endpoint(asio::ip::address_v4::loopback(), credentials.port)
                                   : control::with_port(endpoint, credentials.port);
    return authenticate({rank_endpoint}, control::mix_keys(credentials.key, config_.key), deadline);
  } catch (const std::exception& error) {
    log::debug("join: {}: {}", config_.name, error.what());
    auto const* const refusal = dynamic_cast<const Error*>(&error);
    bool const is_refused = refusal != nullptr && refusal->code() == ErrorCode::environment;
    // Once refused, this rank reports that, and not that rank 0 has ended meanwhile.
    if (is_refused || !refused_) last_error_ = error.what();
    refused_ |= is_refused;
    return std::nullopt;
  }
}

}  // namespace muster::bootstrap
