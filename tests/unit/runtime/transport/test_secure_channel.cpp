// SPDX-License-Identifier: Apache-2.0
// When a connection is closed.
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "transport/secure_channel.hpp"

using namespace muster::control;
using namespace std::chrono_literals;

namespace {

constexpr auto heartbeat_timeout = 800ms;
constexpr auto interval = heartbeat_timeout / 4;

// The other side sends one message, shortly after a liveness check, and then nothing. True when the
// connection is closed less than half an interval after the heartbeat timeout. Both are timers of one thread,
// which run in their order however late they are.
bool disconnects_in_time() {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  asio::io_context io;
  auto const protocol = Endpoint(asio::local::stream_protocol::endpoint()).protocol();
  auto const ours = std::make_shared<SecureChannel>(Socket(io, protocol, ends[0]), SessionKeys{});
  auto const other = std::make_shared<SecureChannel>(Socket(io, protocol, ends[1]), SessionKeys{});
  asio::steady_timer send_timer(io);
  asio::steady_timer too_late(io);
  bool in_time = false;
  other->start([](const Message&) {}, [](const std::string&) {});
  ours->start(
      [&](const Message&) {
        too_late.expires_after(heartbeat_timeout + interval / 2);
        too_late.async_wait([&](const asio::error_code& error) {
          if (!error) ours->close();
        });
      },
      [&](const std::string& reason) {
        in_time = reason == "silent for 800 ms";
        too_late.cancel();
      },
      heartbeat_timeout);
  send_timer.expires_after(interval / 4);
  send_timer.async_wait([&](const asio::error_code&) { other->send({{"type", "word"}}); });
  io.run_for(20s);
  return in_time;
}

using asio::ip::tcp;

// Both ends of a TCP connection; the second one's buffer is small.
std::pair<tcp::socket, tcp::socket> connected_pair(asio::io_context& io) {
  tcp::acceptor acceptor(io);
  acceptor.open(tcp::v4());
  acceptor.set_option(tcp::socket::receive_buffer_size(4096));
  acceptor.bind({asio::ip::address_v4::loopback(), 0});
  acceptor.listen();
  tcp::socket one(io);
  one.connect(acceptor.local_endpoint());
  return {std::move(one), acceptor.accept()};
}

int tcp_option(int descriptor, int option) {
  int value = 0;
  socklen_t length = sizeof value;
  REQUIRE(::getsockopt(descriptor, IPPROTO_TCP, option, &value, &length) == 0);
  return value;
}

}  // namespace

TEST_CASE(
    "when the other side is silent, the connection closes at the timeout, also between two heartbeats") {
  // When this process itself is held up for half the timeout, the timeout restarts: so allow a few attempts.
  bool in_time = false;
  for (int i = 0; i < 5 && !in_time; ++i) in_time = disconnects_in_time();
  CHECK(in_time);
}

TEST_CASE("a connection without a recorder needs no descriptor besides its socket") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  asio::io_context io;
  auto const count_descriptors = [] {
    std::filesystem::directory_iterator const open_files("/proc/self/fd");
    return std::distance(begin(open_files), end(open_files));
  };
  Socket socket(io, Endpoint(asio::local::stream_protocol::endpoint()).protocol(), ends[0]);
  auto const before = count_descriptors();
  auto const channel = std::make_shared<SecureChannel>(std::move(socket), SessionKeys{});
  CHECK(count_descriptors() == before);
  ::close(ends[1]);
}

TEST_CASE("TCP gives up later than the heartbeats: it cannot know whether the other process has ended") {
  asio::io_context io;
  auto [one, other] = connected_pair(io);
  int const descriptor = one.native_handle();
  auto const channel = std::make_shared<SecureChannel>(Socket(std::move(one)), SessionKeys{});
  channel->start([](const Message&) {}, [](const std::string&) {}, 60s);
  CHECK(tcp_option(descriptor, TCP_USER_TIMEOUT) > 60'000);
  CHECK(tcp_option(descriptor, TCP_THIN_LINEAR_TIMEOUTS) == 1);
  other.close();
  io.run_for(20s);
}

TEST_CASE("a closed connection stays until the other side has all messages") {
  asio::io_context io;
  auto [one, other] = connected_pair(io);
  auto const channel = std::make_shared<SecureChannel>(Socket(std::move(one)), SessionKeys{});
  channel->start([](const Message&) {}, [](const std::string&) {}, 60s);
  std::size_t const bytes = 100'000;
  channel->send({{"type", std::string(bytes, 'x')}});
  channel->close();
  // The other side is slow to read. What it sends then would reset a closed connection.
  io.run_for(600ms);
  asio::write(other, asio::buffer("abc", 3));
  std::size_t received = 0;
  std::vector<char> buffer(bytes);
  asio::error_code error;
  std::function<void()> const read = [&] {
    other.async_read_some(asio::buffer(buffer), [&](const asio::error_code& failed, std::size_t length) {
      received += length;
      error = failed;
      if (!failed) read();
    });
  };
  read();
  io.run_for(20s);
  CHECK(error == asio::error::eof);
  CHECK(received > bytes);
}

TEST_CASE("the other side is not silent while a message arrives slowly") {
  asio::io_context io;
  auto [one, other] = connected_pair(io);
  auto const channel = std::make_shared<SecureChannel>(Socket(std::move(one)), SessionKeys{});
  std::string reason;
  channel->start([](const Message&) {}, [&](const std::string& why) { reason = why; }, heartbeat_timeout);
  std::array<std::uint8_t, 4> const length{0, 0, 1, 0};
  asio::write(other, asio::buffer(length));
  for (auto sent = 0ms; sent < 2 * heartbeat_timeout; sent += interval) {
    io.run_for(interval);
    asio::write(other, asio::buffer("x", 1));
  }
  CHECK(reason.empty());
  // Its end is noticed: the rest never comes.
  io.run_for(20s);
  CHECK(reason == "silent for 800 ms");
}
