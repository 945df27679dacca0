// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/reporter_election.hpp"

#include <algorithm>
#include <future>

#include "log.hpp"
#include "rendezvous/rank0_connector.hpp"
#include "rendezvous/failure_marker.hpp"
#include "transport/connect.hpp"

namespace muster::bootstrap {
namespace {

using std::chrono::milliseconds;

// Of the hosts before this one, the first few and the last few are asked: a gap in between does not matter.
constexpr std::size_t asked_at_each_end = 8;
constexpr milliseconds deputy_time{300};
constexpr milliseconds resolve_time{2000};
// The hosts' deadlines pass at different moments, as their ranks started at different ones: the others get
// this long before they are asked, and this long to ask.
constexpr milliseconds settle{2000};
constexpr milliseconds linger{4000};
// The same where all noticed at once.
constexpr milliseconds short_settle{300};
constexpr milliseconds short_linger{900};
// The host's other ranks see for so long that its first is there.
constexpr milliseconds linger_on_host{1000};
constexpr milliseconds between_unknown_hosts{1000};
constexpr int longest_queue = 10;

}  // namespace

Deputies::Deputies(const RendezvousConfig& plan) : plan_(plan) {
  if (plan.host_index < 0 || plan.ports.empty() || plan.hosts.size() < 2) return;
  try {
    if (plan.seal) {
      desk_ = std::make_unique<KeyServer>(std::make_unique<control::Acceptor>(io_, plan.ports), *plan.seal,
                                        plan.job, plan.size, JobCredentials{control::random_key(), 0}, nullptr);
    } else {
      gate_ = std::make_unique<control::AuthenticatingAcceptor>(io_, plan.ports);
      gate_->open(
          plan.size, [](std::uint32_t) { return true; }, plan.key,
          [](int, const control::Socket&, const control::SessionKeys&) {});
    }
    thread_ = std::thread([this] { io_.run(); });
  } catch (const Error& error) {
    log::debug("join: {}: {}", plan.name, error.what());  // the later hosts may speak too, then
  }
}

Deputies::~Deputies() {
  io_.stop();
  if (thread_.joinable()) thread_.join();
}

bool Deputies::is_there(const std::string& host) const {
  std::string why;
  for (const auto& endpoint : endpoints_at(host, plan_.ports, Deadline(resolve_time), why)) {
    try {
      asio::io_context io;
      if (plan_.seal) {
        request_job_key(io, endpoint, *plan_.seal, plan_.job, plan_.rank, Deadline(deputy_time));
      } else {
        control::connect_once(io, plan_.rank, endpoint, plan_.key, Deadline(deputy_time));
      }
      return true;
    } catch (const std::exception& error) {
      log::debug("join: {}: {}: {}", plan_.name, control::name_of(endpoint), error.what());
    }
  }
  return false;
}

bool Deputies::is_to_speak(bool at_once) {
  if (plan_.host_index < 0 || plan_.hosts.size() < 2) {
    std::this_thread::sleep_for(between_unknown_hosts * std::min(plan_.turn, longest_queue));
    std::this_thread::sleep_for(linger_on_host);
    if (plan_.keeps_what_was_told) mark_failure_reported(plan_.job);
    return true;
  }
  std::this_thread::sleep_for(at_once ? short_settle : settle);
  auto const before = std::min(static_cast<std::size_t>(plan_.host_index), plan_.hosts.size());
  std::vector<std::future<bool>> answers;
  for (std::size_t i = 0; i < before; ++i) {
    if (i >= asked_at_each_end && i + asked_at_each_end < before) continue;
    answers.push_back(std::async(std::launch::async, [this, i] { return is_there(plan_.hosts[i]); }));
  }
  bool first = true;
  for (auto& answer : answers)
    if (answer.get()) first = false;
  if (plan_.keeps_what_was_told) mark_failure_reported(plan_.job);  // by this host or by one before it
  std::this_thread::sleep_for(at_once ? short_linger : linger);
  return first;
}

}  // namespace muster::bootstrap
