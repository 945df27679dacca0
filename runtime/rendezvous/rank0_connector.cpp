// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/rank0_connector.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "log.hpp"
#include "rendezvous/auth_failure_server.hpp"
#include "transport/connect.hpp"

namespace muster::bootstrap {
namespace {

using control::Endpoint;
using std::chrono::milliseconds;

// How long one endpoint may take before the next is tried.
constexpr milliseconds approach_time{2000};
// Rank 0 is looked for on other hosts too when it was not where it should be for so many passes.
constexpr int passes_at_home = 6;

}  // namespace

std::vector<Endpoint> endpoints_at(const std::string& host, const std::vector<std::uint16_t>& ports,
                                   const Deadline& deadline, std::string& why) {
  struct Answer {
    std::vector<asio::ip::address> addresses;
    std::string why;
  };
  // The system's resolver has time limits of its own.
  auto const answer = std::make_shared<Answer>();
  auto const done = run_bounded(
      [answer, host] {
        asio::io_context io;
        asio::error_code error;
        for (const auto& entry : asio::ip::tcp::resolver(io).resolve(host, "", error))
          answer->addresses.push_back(entry.endpoint().address());
        answer->why = error ? error.message() : "";
        return 0;
      },
      deadline);
  if (!done || answer->addresses.empty()) {
    why = fmt::format("cannot find the address of {} ({})", host,
                      done ? answer->why : "the resolver does not answer");
    return {};
  }
  std::vector<Endpoint> endpoints;
  for (auto const port : ports)
    for (const auto& address : answer->addresses) endpoints.push_back(control::tcp_endpoint(address, port));
  return endpoints;
}

const std::vector<Endpoint>& Rank0Connector::endpoints(const Deadline& deadline) {
  if (!plan_.local_name.empty()) {
    // What is to be said of the first is said last.
    if (endpoints_.empty()) {
      endpoints_ = control::local_endpoints(plan_.local_name);
      std::reverse(endpoints_.begin(), endpoints_.end());
    }
    return endpoints_;
  }
  if (endpoints_.empty()) endpoints_ = endpoints_at(plan_.leader_host, plan_.ports, deadline, last_);
  if (++passes_ > passes_at_home && !everywhere_) {
    everywhere_ = true;
    std::string unused;
    for (const auto& host : plan_.other_hosts) {
      auto const more = endpoints_at(host, plan_.ports, deadline, unused);
      endpoints_.insert(endpoints_.end(), more.begin(), more.end());
    }
  }
  return endpoints_;
}

std::optional<Rank0Connector::Arrival> Rank0Connector::once(const Deadline& deadline) {
  for (const auto& endpoint : endpoints(deadline)) {
    if (auto arrival = try_at(endpoint, Deadline(std::min(approach_time, deadline.remaining()))))
      return arrival;
    if (deadline.passed()) break;
  }
  return std::nullopt;
}

// Strangers and other jobs may sit on any of the ports.
std::optional<Rank0Connector::Arrival> Rank0Connector::try_at(const Endpoint& endpoint, const Deadline& deadline) {
  try {
    if (!plan_.seal) {
      return Arrival{control::connect_once(io_, plan_.rank, endpoint, plan_.key, deadline), plan_.key};
    }
    auto const ticket = request_job_key(io_, endpoint, *plan_.seal, plan_.job, plan_.rank, deadline);
    if (ticket.port == 0) throw Error(ErrorCode::system, "rank 0 is not there, another rank of the job is");
    auto const gate = control::is_local(endpoint)
                          ? control::tcp_endpoint(asio::ip::address_v4::loopback(), ticket.port)
                          : control::with_port(endpoint, ticket.port);
    return Arrival{control::connect_once(io_, plan_.rank, gate, ticket.key, deadline), ticket.key};
  } catch (const std::exception& error) {
    last_ = fmt::format("{}: {}", control::name_of(endpoint), error.what());
    log::debug("join: {}: {}", plan_.name, last_);
    return std::nullopt;
  }
}

bool Rank0Connector::decline(AuthFailure obstacle, const Deadline& deadline) {
  bool told = false;
  for (const auto& endpoint : endpoints(deadline)) {
    try {
      report_auth_failure(io_, endpoint, plan_.rank, obstacle,
                 Deadline(std::min(approach_time, deadline.remaining())));
      told = true;
    } catch (const std::exception& error) {
      log::debug("join: {}: {}: {}", plan_.name, control::name_of(endpoint), error.what());
    }
    if (deadline.passed()) break;
  }
  return told;
}

AuthFailure Rank0Connector::obstacle_of_rank_0(const Deadline& deadline) {
  for (const auto& endpoint : endpoints(deadline)) {
    auto const obstacle = query_auth_failure(io_, endpoint, plan_.rank, deadline);
    if (obstacle != AuthFailure::none || deadline.passed()) return obstacle;
  }
  return AuthFailure::none;
}

}  // namespace muster::bootstrap
