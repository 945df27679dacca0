// SPDX-License-Identifier: Apache-2.0
#include "report/report_sender.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "file/descriptor.hpp"

namespace muster::spank {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds connect_time{1000};  // the kernel answers, however busy the collector is

/// Starts to connect; the descriptor is -1 if that fails at once.
Descriptor connect_to(const std::string& host, int port) {
  sockaddr_in ipv4{};
  sockaddr_in6 ipv6{};
  ipv4.sin_family = AF_INET;
  ipv6.sin6_family = AF_INET6;
  ipv4.sin_port = ipv6.sin6_port = htons(static_cast<std::uint16_t>(port));
  const bool is_ipv4 = inet_pton(AF_INET, host.c_str(), &ipv4.sin_addr) == 1;
  if (!is_ipv4 && inet_pton(AF_INET6, host.c_str(), &ipv6.sin6_addr) != 1) return Descriptor();
  Descriptor socket(::socket(is_ipv4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto* address =
      is_ipv4 ? reinterpret_cast<const sockaddr*>(&ipv4) : reinterpret_cast<const sockaddr*>(&ipv6);
  const socklen_t size = is_ipv4 ? sizeof ipv4 : sizeof ipv6;
  if (socket.valid() && connect(socket.number(), address, size) != 0 && errno != EINPROGRESS) socket.reset();
  return socket;
}

int milliseconds_until(Clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
  return left > 0 ? static_cast<int>(left) : 0;
}

bool wait_for(int descriptor, short events, Clock::time_point end) {
  pollfd item{descriptor, events, 0};
  while (true) {
    const int left = milliseconds_until(end);
    const int ready = poll(&item, 1, left);
    if (ready > 0) return true;
    if ((ready < 0 && errno != EINTR) || left == 0) return false;
  }
}

bool send_all(int descriptor, const std::string& text, Clock::time_point end) {
  std::size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t count = send(descriptor, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count > 0)
      sent += static_cast<std::size_t>(count);
    else if (errno != EINTR && (errno != EAGAIN || !wait_for(descriptor, POLLOUT, end)))
      return false;
  }
  return true;
}

/// The exchange that report_address.hpp describes.
bool exchange(int descriptor, const std::string& message, Clock::time_point end) {
  if (!send_all(descriptor, message, end)) return false;
  char answer = 0;
  if (!wait_for(descriptor, POLLIN, end) || recv(descriptor, &answer, 1, 0) != 1 || answer != report_received)
    return false;
  return send_all(descriptor, std::string(1, report_confirmed), end);
}

}  // namespace

bool send_report(const ReportAddress& address, const placement::NodeReport& report,
                 std::chrono::milliseconds deadline) {
  const auto start = Clock::now();
  const auto end = start + deadline;
  const auto connected = start + std::min(deadline, connect_time);
  const std::string body = placement::write_node_report(report);
  char length[report_length_digits + 1];
  if (std::snprintf(length, sizeof length, "%08zx", body.size()) >= static_cast<int>(sizeof length))
    return false;
  const std::string message = address.token + length + body;

  std::vector<Descriptor> sockets;
  for (const auto& host : address.hosts) sockets.push_back(connect_to(host, address.port));
  while (true) {
    std::vector<pollfd> waiting;
    for (const auto& socket : sockets) waiting.push_back({socket.number(), POLLOUT, 0});  // -1 is skipped
    const bool any = std::any_of(sockets.begin(), sockets.end(), [](const auto& one) { return one.valid(); });
    if (!any) return false;
    const int left = milliseconds_until(connected);
    const int ready = poll(waiting.data(), waiting.size(), left);
    if ((ready < 0 && errno != EINTR) || (ready <= 0 && left == 0)) return false;
    for (std::size_t i = 0; ready > 0 && i < waiting.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      int error = 0;
      socklen_t size = sizeof error;
      getsockopt(waiting[i].fd, SOL_SOCKET, SO_ERROR, &error, &size);
      if (error == 0 && exchange(waiting[i].fd, message, end)) return true;
      sockets[i].reset();
    }
  }
}

}  // namespace muster::spank
