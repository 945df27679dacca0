// SPDX-License-Identifier: Apache-2.0
// A step's report over real sockets: nodes, strangers, and a collector that ends.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "catch.hpp"
#include "flood.hpp"
#include "report/report_collector.hpp"
#include "report/report_daemon.hpp"
#include "report/report_sender.hpp"
#include "soon.hpp"

using namespace muster::spank;
using muster::placement::NodeReport;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

namespace {

NodeReport make_report(const std::string& host, int rank = 0) {
  NodeReport report;
  report.host = host;
  report.rows.push_back({0, rank, {"0000:01:00.0"}, "0-3", {0}, {"mlx5_0:1"}, "NODE", "PIX", {"because"}});
  return report;
}

ReportAddress on_loopback(ReportAddress address) {
  address.hosts = {"127.0.0.1"};
  return address;
}

/// A pipe; its write end represents srun.
struct Owner {
  Owner() { REQUIRE(pipe2(ends.data(), O_CLOEXEC) == 0); }
  ~Owner() {
    leave();
    close(ends[0]);
  }
  void leave() {
    if (ends[1] >= 0) close(ends[1]);
    ends[1] = -1;
  }
  std::array<int, 2> ends{};
};

int connect_to(const ReportAddress& address) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(address.port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(descriptor, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  return descriptor;
}

/// Whether the other side closes the connection within a second after `text`.
bool is_disconnected(int descriptor, const std::string& text) {
  send(descriptor, text.data(), text.size(), MSG_NOSIGNAL);
  const timeval second{1, 0};
  setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
  char byte = 0;
  const ssize_t got = recv(descriptor, &byte, 1, 0);
  const bool closed = got == 0 || (got < 0 && errno == ECONNRESET);
  close(descriptor);
  return closed;
}

}  // namespace

TEST_CASE("A collector's address survives conversion to text, and invalid texts are rejected") {
  const ReportAddress address{{"10.0.0.1", "fe00::1"}, 4711, "0123456789abcdef0123456789abcdef"};
  const auto back = ReportAddress::parse(address.to_string());
  REQUIRE(back);
  CHECK(back->hosts == address.hosts);
  CHECK(back->port == 4711);
  CHECK(back->token == address.token);
  const std::string token = address.token;
  for (const std::string& text :
       {std::string(), token, token + ":1", token + ":0:h", token + ":65536:h", token + ":x:h",
        token + ":1:", "0" + token + ":1:h", std::string(32, 'g') + ":1:h",
        token + ":1:" + std::string(2000, 'h'), token + ":1:a,b,c,d,e,f,g,h,i"})
    CHECK_FALSE(ReportAddress::parse(text));
}

TEST_CASE("When all nodes have reported, the collector ends by itself") {
  constexpr int nodes = 40;
  ReportCollector collector(nodes);
  Owner owner;
  auto collected = std::async(std::launch::async, [&] { return collector.collect(owner.ends[0]); });
  std::vector<std::thread> senders;
  std::atomic<int> taken = 0;
  for (int i = 0; i < nodes; ++i)
    senders.emplace_back([&, i] {
      if (send_report(on_loopback(collector.address()), make_report("n" + std::to_string(i), i), 5s)) ++taken;
    });
  for (auto& sender : senders) sender.join();
  REQUIRE(collected.wait_for(5s) == std::future_status::ready);
  const auto reports = collected.get();
  CHECK(taken == nodes);
  REQUIRE(reports.size() == nodes);
  const auto text = muster::placement::merge_reports(reports, nodes, false);
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("n[0-39]: 40 nodes alike, ranks 0-39"));
}

TEST_CASE("The collector is reachable at the addresses that it publishes") {
  ReportCollector collector(1);
  Owner owner;
  auto collected = std::async(std::launch::async, [&] { return collector.collect(owner.ends[0]); });
  CHECK(send_report(collector.address(), make_report("n0"), 5s));
  CHECK(collected.get().size() == 1);
}

TEST_CASE("When one address does not answer, another one is used") {
  ReportCollector collector(1);
  Owner owner;
  auto collected = std::async(std::launch::async, [&] { return collector.collect(owner.ends[0]); });
  auto address = on_loopback(collector.address());
  // TEST-NET-1 of RFC 5737, an invalid address, and one that refuses connections.
  address.hosts = {"192.0.2.1", "nonsense", "127.0.0.2", "127.0.0.1"};
  CHECK(send_report(address, make_report("n0"), 5s));
  CHECK(collected.get().size() == 1);
}

TEST_CASE("Strangers are disconnected, whatever they send, and a node can still report") {
  CollectorLimits limits;
  limits.connections = 8;
  ReportCollector collector(1, limits);
  const auto address = on_loopback(collector.address());
  Owner owner;
  auto collected = std::async(std::launch::async, [&] { return collector.collect(owner.ends[0]); });
  CHECK(is_disconnected(connect_to(address), "GET / HTTP/1.1\r\nHost: example\r\n\r\n        "));
  CHECK(is_disconnected(connect_to(address), std::string(32, '0') + "00000002{}"));
  CHECK(is_disconnected(connect_to(address), address.token + "ffffffff{}"));
  CHECK(is_disconnected(connect_to(address), address.token + "00000000"));
  CHECK(is_disconnected(connect_to(address), address.token + "0000000x"));
  CHECK(is_disconnected(connect_to(address), address.token + "00000002{}{}"));
  std::vector<int> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(connect_to(address));
  CHECK(send_report(address, make_report("n0"), 5s));
  for (const int descriptor : silent) close(descriptor);
  CHECK(collected.get().size() == 1);
}

TEST_CASE("While strangers flood the collector, every node can report") {
  constexpr int nodes = 20;
  ReportCollector collector(nodes);
  Owner owner;
  auto collected = std::async(std::launch::async, [&] { return collector.collect(owner.ends[0]); });
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(collector.address().port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const Flood flood(&to, sizeof to, "GET / HTTP/1.1");
  while (flood.connections() < Flood::kept) std::this_thread::sleep_for(1ms);
  for (int i = 0; i < nodes; ++i)
    CHECK(send_report(on_loopback(collector.address()), make_report("n" + std::to_string(i), i), soon));
  REQUIRE(collected.wait_for(soon) == std::future_status::ready);
  CHECK(collected.get().size() == nodes);
}

TEST_CASE("When a collector has no descriptor left, it closes its port and waiting nodes notice") {
  ReportCollector collector(1);
  Owner owner;
  const int waiting = connect_to(on_loopback(collector.address()));
  rlimit usual{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &usual) == 0);
  rlimit none_left = usual;
  none_left.rlim_cur = 3;  // poll refuses more entries than this
  // UndefinedBehaviorSanitizer needs a descriptor to check the type of an object of std::thread or
  // std::future, so none is made or ends while there is no descriptor.
  enum { before, limited, after };
  std::atomic<int> descriptors = before;
  std::atomic<bool> ended = false;
  std::size_t reports = 1;
  std::thread collecting([&] {
    while (descriptors == before) std::this_thread::sleep_for(1ms);
    reports = collector.collect(owner.ends[0]).size();
    ended = true;
    while (descriptors == limited) std::this_thread::sleep_for(1ms);
  });
  const bool set = setrlimit(RLIMIT_NOFILE, &none_left) == 0;
  descriptors = limited;
  for (const auto end = std::chrono::steady_clock::now() + soon;
       !ended && std::chrono::steady_clock::now() < end;)
    std::this_thread::sleep_for(1ms);
  setrlimit(RLIMIT_NOFILE, &usual);
  descriptors = after;
  CHECK(ended);
  owner.leave();
  collecting.join();
  CHECK(set);
  CHECK(is_disconnected(waiting, ""));
  CHECK(reports == 0);
}

TEST_CASE("A report without confirmation is ignored, since its node prints it itself") {
  CollectorLimits limits;
  limits.per_connection = 5s;
  ReportCollector collector(1, limits);
  const auto address = on_loopback(collector.address());
  Owner owner;
  auto collected = std::async(std::launch::async, [&] { return collector.collect(owner.ends[0]); });
  const int descriptor = connect_to(address);
  const std::string message = address.token + "00000002{}";
  REQUIRE(send(descriptor, message.data(), message.size(), 0) == static_cast<ssize_t>(message.size()));
  char answer = 0;
  CHECK(recv(descriptor, &answer, 1, 0) == 1);
  CHECK(answer == report_received);
  close(descriptor);
  CHECK(collected.wait_for(300ms) == std::future_status::timeout);
  owner.leave();
  REQUIRE(collected.wait_for(2s) == std::future_status::ready);
  CHECK(collected.get().empty());
}

TEST_CASE("When a node is late, the collector ends and the node must print its report itself") {
  CollectorLimits limits;
  limits.after_first_report = 100ms;
  ReportCollector collector(2, limits);
  const auto address = on_loopback(collector.address());
  Owner owner;
  auto collected = std::async(std::launch::async, [&] { return collector.collect(owner.ends[0]); });
  REQUIRE(send_report(address, make_report("n0")));
  REQUIRE(collected.wait_for(soon) == std::future_status::ready);
  CHECK(collected.get().size() == 1);
  CHECK_FALSE(send_report(address, make_report("n1")));
}

TEST_CASE("When no node reports, the collector closes its port in time although its owner lives") {
  CollectorLimits limits;
  limits.first_report = 100ms;
  ReportCollector collector(1, limits);
  const auto address = on_loopback(collector.address());
  Owner owner;
  auto collected = std::async(std::launch::async, [&] { return collector.collect(owner.ends[0]); });
  CHECK(collected.wait_for(soon) == std::future_status::ready);
  CHECK_FALSE(send_report(address, make_report("n0")));
  owner.leave();
  CHECK(collected.get().empty());
}

TEST_CASE("When its owner process has ended, the collector ends although the pipe stays open") {
  const pid_t owner = fork();
  if (owner == 0) _exit(0);
  waitpid(owner, nullptr, 0);
  ReportCollector collector(1);
  Owner pipe;
  auto collected = std::async(std::launch::async, [&] { return collector.collect(pipe.ends[0], owner); });
  REQUIRE(collected.wait_for(soon) == std::future_status::ready);
  CHECK(collected.get().empty());
}

TEST_CASE("When a collector does not answer, a node waits until its deadline and no longer") {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof own;
  REQUIRE(bind(listener, reinterpret_cast<const sockaddr*>(&own), size) == 0);
  REQUIRE(listen(listener, 1) == 0);
  REQUIRE(getsockname(listener, reinterpret_cast<sockaddr*>(&own), &size) == 0);
  const auto start = Clock::now();
  CHECK_FALSE(
      send_report({{"127.0.0.1"}, ntohs(own.sin_port), std::string(32, 'a')}, make_report("n0"), 150ms));
  const auto took = Clock::now() - start;
  CHECK(took >= 150ms);
  CHECK(took < soon);
  close(listener);
}
