// SPDX-License-Identifier: Apache-2.0
#include "report/report_collector.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <system_error>
#include <utility>

#include "hash/fnv1a.hpp"
#include "placement/topology/error.hpp"

namespace muster::spank {

namespace {

constexpr std::chrono::milliseconds confirmation_time{300};  // a node that got an answer confirms at once
constexpr std::chrono::milliseconds owner_check_time{1000};
constexpr std::size_t header_bytes = report_token_digits + report_length_digits;

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), std::string("the report's collector: ") + what);
}

std::string random_token() {
  std::array<std::uint64_t, 2> random{};
  if (getrandom(random.data(), sizeof random, 0) != static_cast<ssize_t>(sizeof random)) fail("getrandom");
  static_assert(report_token_digits == 32);
  return hexadecimal(random[0]) + hexadecimal(random[1]);
}

/// A socket of this family that listens on a free port of all addresses; none and errno if that fails.
Descriptor listen_on(int family) {
  Descriptor listener(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.valid()) return listener;
  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  sockaddr_in ipv4{};
  ipv4.sin_family = AF_INET;
  const int off = 0;
  if (family == AF_INET6) setsockopt(listener.number(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const auto* address = family == AF_INET6 ? reinterpret_cast<const sockaddr*>(&ipv6)
                                           : reinterpret_cast<const sockaddr*>(&ipv4);
  const socklen_t size = family == AF_INET6 ? sizeof ipv6 : sizeof ipv4;
  const bool listens =
      bind(listener.number(), address, size) == 0 && listen(listener.number(), SOMAXCONN) == 0;
  return listens ? std::move(listener) : Descriptor();
}

int local_port(int descriptor) {
  sockaddr_in6 address{};  // the port has the same offset in both families
  socklen_t size = sizeof address;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) fail("getsockname");
  return ntohs(address.sin6_port);
}

/// This machine's addresses that other machines can reach, IPv4 first; loopback if there is no other.
std::vector<std::string> own_addresses(bool with_ipv6) {
  std::vector<std::string> ipv4, ipv6;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) fail("getifaddrs");
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    char text[INET6_ADDRSTRLEN] = "";
    if (one->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
      ipv4.emplace_back(inet_ntop(AF_INET, &address->sin_addr, text, sizeof text));
    } else if (with_ipv6 && one->ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr);
      if (!IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr))
        ipv6.emplace_back(inet_ntop(AF_INET6, &address->sin6_addr, text, sizeof text));
    }
  }
  freeifaddrs(list);
  ipv4.insert(ipv4.end(), ipv6.begin(), ipv6.end());
  return ipv4.empty() ? std::vector<std::string>{"127.0.0.1"} : ipv4;
}

}  // namespace

ReportCollector::ReportCollector(int nodes, const CollectorLimits& limits)
    : limits_(limits),
      nodes_(static_cast<std::size_t>(std::max(nodes, 1))),
      deadline_(Clock::now() + limits.first_report) {
  address_.token = random_token();
  listener_ = listen_on(AF_INET6);
  const bool with_ipv6 = listener_.valid();
  if (!with_ipv6) listener_ = listen_on(AF_INET);
  if (!listener_.valid()) fail("listen");
  address_.port = local_port(listener_.number());
  address_.hosts = own_addresses(with_ipv6);
}

std::vector<placement::NodeReport> ReportCollector::collect(int end, int owner) {
  bool ended = false;
  while (true) {
    if (!closing_ && (ended || is_finished(owner))) stop_accepting();
    if (closing_ && connections_.empty()) break;
    std::vector<pollfd> waiting = {{closing_ ? -1 : end, POLLIN, 0}, {listener_.number(), POLLIN, 0}};
    for (const auto& connection : connections_) waiting.push_back({connection.socket.number(), POLLIN, 0});
    if (poll(waiting.data(), waiting.size(), poll_timeout()) < 0 && errno != EINTR) break;
    ended = waiting[0].revents != 0;
    serve_all(waiting);
    if (waiting[1].revents != 0) accept_new();
  }
  std::vector<placement::NodeReport> reports;
  for (const auto& text : reports_) {
    try {
      reports.push_back(placement::read_node_report(text));
    } catch (const placement::Error&) {  // from another build: the heading reports that one is missing
    }
  }
  return reports;
}

bool ReportCollector::is_finished(int owner) const {
  return reports_.size() >= nodes_ || Clock::now() >= deadline_ ||
         (owner > 0 && kill(owner, 0) != 0 && errno == ESRCH);
}

// A node that connects from now on is refused and prints its own table; a node that got an answer can still
// confirm.
void ReportCollector::stop_accepting() {
  closing_ = true;
  listener_.reset();
  const auto end = Clock::now() + confirmation_time;
  connections_.remove_if([&](Connection& connection) {
    connection.end = std::min(connection.end, end);
    return !connection.acknowledged;
  });
}

int ReportCollector::poll_timeout() const {
  auto next = Clock::now() + owner_check_time;
  if (!closing_) next = std::min(next, deadline_);
  for (const auto& connection : connections_) next = std::min(next, connection.end);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(left, 0));
}

void ReportCollector::accept_new() {
  while (true) {
    Descriptor socket(accept4(listener_.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      // The connection stays in the queue, so poll would report it again at once.
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) stop_accepting();
      return;
    }
    // Evicts the oldest connection without a valid token.
    if (connections_.size() >= limits_.connections) {
      auto oldest = std::find_if(connections_.begin(), connections_.end(),
                                 [](const auto& connection) { return connection.length == 0; });
      if (oldest == connections_.end()) oldest = connections_.begin();
      connections_.erase(oldest);
    }
    connections_.push_back({std::move(socket), Clock::now() + limits_.per_connection, {}, 0, false});
  }
}

void ReportCollector::serve_all(const std::vector<pollfd>& waiting) {
  const auto now = Clock::now();
  std::size_t index = 2;  // after `end` and the listener
  for (auto connection = connections_.begin(); connection != connections_.end(); ++index) {
    const bool open = now < connection->end && (waiting[index].revents == 0 || serve(*connection));
    connection = open ? std::next(connection) : connections_.erase(connection);
  }
}

// False: this connection has ended, with or without a report.
bool ReportCollector::serve(Connection& connection) {
  std::array<char, 16384> buffer;
  while (true) {
    const ssize_t got = recv(connection.socket.number(), buffer.data(), buffer.size(), 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    if (connection.acknowledged) {
      if (buffer[0] == report_confirmed) add_report(connection);
      return false;
    }
    connection.received.append(buffer.data(), static_cast<std::size_t>(got));
    if (connection.length == 0 && connection.received.size() >= header_bytes && !read_header(connection))
      return false;
    if (connection.length == 0) continue;
    if (connection.received.size() > connection.length) return false;
    if (connection.received.size() == connection.length) {
      if (send(connection.socket.number(), &report_received, 1, MSG_NOSIGNAL) != 1) return false;
      connection.acknowledged = true;
    }
  }
}

// False: the token is wrong, or the report exceeds a limit.
bool ReportCollector::read_header(Connection& connection) {
  if (!connection.received.starts_with(address_.token)) return false;
  const char* first = connection.received.data() + report_token_digits;
  const auto [stop, error] = std::from_chars(first, first + report_length_digits, connection.length, 16);
  if (error != std::errc() || stop != first + report_length_digits || connection.length == 0) return false;
  std::size_t promised = stored_bytes_;
  for (const auto& one : connections_) promised += one.length;
  if (connection.length > limits_.report_bytes || promised > limits_.total_bytes) return false;
  connection.received.erase(0, header_bytes);
  return true;
}

void ReportCollector::add_report(Connection& connection) {
  stored_bytes_ += connection.length;
  reports_.push_back(std::move(connection.received));
  if (reports_.size() == 1) deadline_ = Clock::now() + limits_.after_first_report;
}

}  // namespace muster::spank
