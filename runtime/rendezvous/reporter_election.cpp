// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/reporter_election.hpp"

#include <algorithm>
#include <future>

#include "log.hpp"
#include "rendezvous/failure_marker.hpp"
#include "rendezvous/rank0_connector.hpp"
#include "transport/connect.hpp"

namespace muster::bootstrap {
namespace {

using std::chrono::milliseconds;

// Of the hosts before this one, only the first and last few are queried: a gap in between does no harm.
constexpr std::size_t queried_at_each_end = 8;
constexpr milliseconds query_timeout{300};
constexpr milliseconds resolve_time{2000};
// The hosts' deadlines differ because their ranks start at different times. A host waits settle_time before
// it queries the earlier hosts, and answers later hosts' queries for linger_time afterwards.
constexpr milliseconds settle_time{2000};
constexpr milliseconds linger_time{4000};
// The same when all hosts noticed simultaneously.
constexpr milliseconds short_settle_time{300};
constexpr milliseconds short_linger_time{900};
// How long the host's other ranks can see that their leader is alive.
constexpr milliseconds host_linger_time{1000};
constexpr milliseconds unknown_host_interval{1000};
constexpr int max_report_order = 10;

}  // namespace

ReporterElection::ReporterElection(const RendezvousConfig& config) : config_(config) {
  if (config.host_index < 0 || config.ports.empty() || config.hosts.size() < 2) return;
  try {
    if (config.codec) {
      key_server_ = std::make_unique<KeyServer>(std::make_unique<control::Acceptor>(io_, config.ports),
                                                *config.codec, config.job, config.size,
                                                JobCredentials{control::random_key(), 0}, nullptr);
    } else {
      rank_acceptor_ = std::make_unique<control::AuthenticatingAcceptor>(io_, config.ports);
      rank_acceptor_->open(
          config.size, [](std::uint32_t) { return true; }, config.key,
          [](int, const control::Socket&, const control::SessionKeys&) {});
    }
    thread_ = std::thread([this] { io_.run(); });
  } catch (const Error& error) {
    log::debug("join: {}: {}", config.name, error.what());  // later hosts may then report too
  }
}

ReporterElection::~ReporterElection() {
  io_.stop();
  if (thread_.joinable()) thread_.join();
}

bool ReporterElection::is_host_alive(const std::string& host) const {
  std::string reason;
  for (const auto& endpoint : resolve_endpoints(host, config_.ports, Deadline(resolve_time), reason)) {
    try {
      asio::io_context io;
      if (config_.codec) {
        request_job_key(io, endpoint, *config_.codec, config_.job, config_.rank, Deadline(query_timeout));
      } else {
        control::connect_once(io, config_.rank, endpoint, config_.key, Deadline(query_timeout));
      }
      return true;
    } catch (const std::exception& error) {
      log::debug("join: {}: {}: {}", config_.name, control::to_string(endpoint), error.what());
    }
  }
  return false;
}

bool ReporterElection::is_elected(bool simultaneous) {
  if (config_.host_index < 0 || config_.hosts.size() < 2) {
    std::this_thread::sleep_for(unknown_host_interval * std::min(config_.report_order, max_report_order));
    std::this_thread::sleep_for(host_linger_time);
    if (config_.use_failure_marker) mark_failure_reported(config_.job);
    return true;
  }
  std::this_thread::sleep_for(simultaneous ? short_settle_time : settle_time);
  auto const before = std::min(static_cast<std::size_t>(config_.host_index), config_.hosts.size());
  std::vector<std::future<bool>> answers;
  for (std::size_t i = 0; i < before; ++i) {
    if (i >= queried_at_each_end && i + queried_at_each_end < before) continue;
    answers.push_back(std::async(std::launch::async, [this, i] { return is_host_alive(config_.hosts[i]); }));
  }
  bool elected = true;
  for (auto& answer : answers)
    if (answer.get()) elected = false;
  if (config_.use_failure_marker) mark_failure_reported(config_.job);  // this host or one before it reports
  std::this_thread::sleep_for(simultaneous ? short_linger_time : linger_time);
  return elected;
}

}  // namespace muster::bootstrap
