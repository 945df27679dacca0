// SPDX-License-Identifier: Apache-2.0
// Rank 0 accepts ranks with the job's key, and no other connections.

#include <random>

#include "catch.hpp"
#include "flood.hpp"
#include "has.hpp"
#include "is_cut_off.hpp"
#include "runtime/control_plane/control_plane_fixture.hpp"
#include "soon.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;
using asio::ip::tcp;

namespace {

tcp::socket connect_raw(asio::io_context& io, std::uint16_t port) {
  tcp::socket socket(io);
  socket.connect(tcp::endpoint(asio::ip::make_address("127.0.0.1"), port));
  return socket;
}

// Authenticates as rank 1 with `key`, without checking the leader's MAC.
void authenticate_as_rank_1(tcp::socket& socket, const Key& key) {
  KeyPair const own;
  HandshakeTranscript transcript{1, own.public_key(), {}};
  asio::write(socket, asio::buffer(make_client_hello(1, transcript.client_key)));
  std::array<std::uint8_t, server_hello_bytes> server_hello{};
  asio::read(socket, asio::buffer(server_hello));
  std::copy_n(server_hello.begin(), public_key_bytes, transcript.server_key.begin());
  asio::write(socket, asio::buffer(client_mac(purpose_key(key, purpose::control_plane, 0), transcript)));
}

}  // namespace

TEST_CASE("unauthenticated connections are closed and do not keep ranks from joining") {
  ControlPlaneFixture fixture(2, 1);
  auto const port = fixture.planes[0]->port();
  asio::io_context io;
  std::vector<tcp::socket> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(connect_raw(io, port));
  std::mt19937 random(5);
  for (int i = 0; i < 50; ++i) {
    auto socket = connect_raw(io, port);
    std::vector<std::uint8_t> garbage(1 + random() % 5000);
    for (auto& byte : garbage) byte = static_cast<std::uint8_t>(random());
    asio::error_code ignored;
    asio::write(socket, asio::buffer(garbage), ignored);
  }
  auto const began = std::chrono::steady_clock::now();
  fixture.planes.push_back(fixture.connect(1, fixture.key));
  auto const thrown = fixture.run_on_all([](int, ControlPlane& plane) { plane.barrier("meet", 10s); });
  CHECK(std::chrono::steady_clock::now() - began < soon);
  CHECK_FALSE(thrown[0]);
  CHECK_FALSE(thrown[1]);
  CHECK(is_cut_off(silent.front()));
  CHECK(is_cut_off(silent.back()));  // by the authentication timeout
}

TEST_CASE("while strangers flood rank 0's listeners, ranks of each host join and barriers complete") {
  bool const one_host = GENERATE(false, true);  // true: rank 0 also listens on a UNIX socket
  INFO("one host: " << one_host);
  ControlPlaneFixture fixture(3, 1, one_host ? std::vector<int>{0, 0, 0} : std::vector<int>{});
  auto const endpoint = one_host ? local_endpoint(fixture.listeners.options_of(0, {}).local_sockets.front())
                                 : tcp_endpoint(asio::ip::address_v4::loopback(), fixture.planes[0]->port());
  auto const client_hello = make_client_hello(1, KeyPair().public_key());
  std::array<std::optional<Flood>, 2> floods;
  for (auto& flood : floods)
    flood.emplace(endpoint.data(), endpoint.size(), std::string(client_hello.begin(), client_hello.end()));
  while (floods[0]->connections() < Flood::kept) std::this_thread::sleep_for(1ms);
  fixture.planes.push_back(fixture.connect(1, fixture.key));
  fixture.planes.push_back(fixture.connect(2, fixture.key));
  auto const thrown = fixture.run_on_all([](int, ControlPlane& plane) {
    for (int i = 0; i < 20; ++i) plane.barrier("meet", 10s);
  });
  for (const auto& error : thrown) {
    INFO((error ? error->what() : ""));
    CHECK_FALSE(error);
  }
}

TEST_CASE("without the job's key, neither a rank nor a leader is accepted") {
  ControlPlaneFixture fixture(2, 1);
  auto wrong = fixture.key;
  wrong[0] ^= 1;
  try {
    fixture.connect(1, wrong, 1s);
    FAIL("a wrong key was let in");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::deadline);
    CHECK(has(error.what(), "does not have this job's key"));
  }
  // A client that ignores the leader's MAC and sends a MAC with a wrong key.
  asio::io_context io;
  auto socket = connect_raw(io, fixture.planes[0]->port());
  authenticate_as_rank_1(socket, wrong);
  CHECK(is_cut_off(socket));
  // The leader's own MAC, sent back, is not a rank's MAC.
  auto mirror = connect_raw(io, fixture.planes[0]->port());
  std::array<std::uint8_t, server_hello_bytes> server_hello{};
  asio::write(mirror, asio::buffer(make_client_hello(1, KeyPair().public_key())));
  asio::read(mirror, asio::buffer(server_hello));
  asio::write(mirror, asio::buffer(server_hello.data() + public_key_bytes, mac_bytes));
  CHECK(is_cut_off(mirror));
  // The right key is still accepted.
  fixture.planes.push_back(fixture.connect(1, fixture.key));
  auto const thrown = fixture.run_on_all([](int, ControlPlane& plane) { plane.barrier("meet", 10s); });
  CHECK_FALSE(thrown[0]);
  CHECK_FALSE(thrown[1]);
}

TEST_CASE("when an authenticated connection sends forged frames, it is closed") {
  for (std::uint32_t const length : {0u, 5u, 16u, 64u, 0x7fffffffu}) {
    ControlPlaneFixture fixture(2, 1);
    asio::io_context io;
    auto socket = connect_raw(io, fixture.planes[0]->port());
    authenticate_as_rank_1(socket, fixture.key);
    std::vector<std::uint8_t> frame(4 + std::min(length, 64u), 0x5a);
    for (std::size_t i = 0; i < 4; ++i) frame[i] = static_cast<std::uint8_t>(length >> (8 * i));
    asio::write(socket, asio::buffer(frame));
    CHECK(is_cut_off(socket));
    CHECK_THROWS_AS(fixture.planes[0]->barrier("epoch", 200ms), Error);
  }
}
