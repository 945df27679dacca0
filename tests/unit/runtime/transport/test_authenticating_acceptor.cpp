// SPDX-License-Identifier: Apache-2.0
// Rank 0 accepts ranks with the job's key, and no other connections.

#include <random>

#include "catch.hpp"
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

TEST_CASE("when several threads flood the port with connections, barriers still complete") {
  ControlPlaneFixture fixture(3, 1);
  auto const port = fixture.planes[0]->port();
  std::atomic<bool> stop{false};
  std::vector<std::thread> flood;
  for (int t = 0; t < 3; ++t) {
    flood.emplace_back([&] {
      asio::io_context io;
      auto const client_hello = make_client_hello(1, KeyPair().public_key());
      std::vector<tcp::socket> held;
      while (!stop) {
        try {
          held.push_back(connect_raw(io, port));
          asio::error_code ignored;
          asio::write(held.back(), asio::buffer(client_hello), ignored);
        } catch (const asio::system_error&) {
        }
        if (held.size() > 200) held.clear();
      }
    });
  }
  fixture.planes.push_back(fixture.connect(1, fixture.key));
  fixture.planes.push_back(fixture.connect(2, fixture.key));
  auto const thrown = fixture.run_on_all([](int, ControlPlane& plane) {
    for (int i = 0; i < 20; ++i) plane.barrier("meet", 10s);
  });
  stop = true;
  for (auto& thread : flood) thread.join();
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
    fixture.connect(1, wrong, 400ms);
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
