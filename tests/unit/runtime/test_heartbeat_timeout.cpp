// SPDX-License-Identifier: Apache-2.0
// When a connection whose other side says nothing is given up.
#include <sys/socket.h>

#include "catch.hpp"
#include "transport/secure_channel.hpp"

using namespace muster::control;
using namespace std::chrono_literals;

namespace {

constexpr auto silence = 800ms;
constexpr auto quarter = silence / 4;

// The other side says one thing, a moment after a look, and then nothing. True when the connection is given
// up before half a quarter of the silence has passed beyond the silence: both are timers of one thread, which
// run in their order however late they are.
bool is_given_up_in_time() {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  asio::io_context io;
  auto const protocol = Endpoint(asio::local::stream_protocol::endpoint()).protocol();
  auto const ours = std::make_shared<SecureChannel>(Socket(io, protocol, ends[0]), SessionKeys{});
  auto const other = std::make_shared<SecureChannel>(Socket(io, protocol, ends[1]), SessionKeys{});
  asio::steady_timer says(io);
  asio::steady_timer too_late(io);
  bool in_time = false;
  other->start([](const Message&) {}, [](const std::string&) {});
  ours->start(
      [&](const Message&) {
        too_late.expires_after(silence + quarter / 2);
        too_late.async_wait([&](const asio::error_code& error) {
          if (!error) ours->close();
        });
      },
      [&](const std::string& reason) {
        in_time = reason == "silent for 800 ms";
        too_late.cancel();
      },
      silence);
  says.expires_after(quarter / 4);
  says.async_wait([&](const asio::error_code&) { other->send({{"is", "word"}}); });
  io.run_for(20s);
  return in_time;
}

}  // namespace

TEST_CASE("a silent connection is given up when the silence is over, between two beats too") {
  // A process that is itself held up for half the silence counts anew: it may be so now and then.
  bool in_time = false;
  for (int i = 0; i < 5 && !in_time; ++i) in_time = is_given_up_in_time();
  CHECK(in_time);
}
