// SPDX-License-Identifier: Apache-2.0
// Who gets in at rank 0's gate, and who does not.

#include <random>

#include "catch.hpp"
#include "has.hpp"
#include "is_cut_off.hpp"
#include "soon.hpp"
#include "control_plane_fixture.hpp"

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

// As a rank does that has `key`, without looking at the leader's proof.
void prove_as_rank_1(tcp::socket& socket, const Key& key) {
  HandshakeTranscript introduction{1, random_nonce(), {}};
  asio::write(socket, asio::buffer(make_greeting(1, introduction.of_rank)));
  std::array<std::uint8_t, answer_bytes> answer{};
  asio::read(socket, asio::buffer(answer));
  std::copy_n(answer.begin(), nonce_bytes, introduction.of_leader.begin());
  asio::write(socket, asio::buffer(rank_proof(key, introduction)));
}

}  // namespace

TEST_CASE("strangers are cut off and cannot keep the ranks from meeting") {
  Star star(2, 1);
  auto const port = star.planes[0]->port();
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
  star.planes.push_back(star.follow(1, star.key));
  auto const thrown = star.on_each([](int, ControlPlane& plane) { plane.barrier("meet", 10s); });
  CHECK(std::chrono::steady_clock::now() - began < soon);
  CHECK_FALSE(thrown[0]);
  CHECK_FALSE(thrown[1]);
  CHECK(is_cut_off(silent.front()));
  CHECK(is_cut_off(silent.back()));  // by the time limit for a proof
}

TEST_CASE("a flood from several threads does not stall a barrier") {
  Star star(3, 1);
  auto const port = star.planes[0]->port();
  std::atomic<bool> stop{false};
  std::vector<std::thread> flood;
  for (int t = 0; t < 3; ++t) {
    flood.emplace_back([&] {
      asio::io_context io;
      auto const greeting = make_greeting(1, random_nonce());
      std::vector<tcp::socket> held;
      while (!stop) {
        try {
          held.push_back(connect_raw(io, port));
          asio::error_code ignored;
          asio::write(held.back(), asio::buffer(greeting), ignored);
        } catch (const asio::system_error&) {
        }
        if (held.size() > 200) held.clear();
      }
    });
  }
  star.planes.push_back(star.follow(1, star.key));
  star.planes.push_back(star.follow(2, star.key));
  auto const thrown = star.on_each([](int, ControlPlane& plane) {
    for (int i = 0; i < 20; ++i) plane.barrier("meet", 10s);
  });
  stop = true;
  for (auto& thread : flood) thread.join();
  for (const auto& error : thrown) {
    INFO((error ? error->what() : ""));
    CHECK_FALSE(error);
  }
}

TEST_CASE("without the job's key nobody gets in, in either direction") {
  Star star(2, 1);
  auto wrong = star.key;
  wrong[0] ^= 1;
  try {
    star.follow(1, wrong, 400ms);
    FAIL("a wrong key was let in");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::deadline);
    CHECK(has(error.what(), "does not have this job's key"));
  }
  // One who skips the leader's proof and sends one of its own making.
  asio::io_context io;
  auto socket = connect_raw(io, star.planes[0]->port());
  prove_as_rank_1(socket, wrong);
  CHECK(is_cut_off(socket));
  // The leader's own proof sent back is no rank's proof.
  auto mirror = connect_raw(io, star.planes[0]->port());
  std::array<std::uint8_t, answer_bytes> answer{};
  asio::write(mirror, asio::buffer(make_greeting(1, random_nonce())));
  asio::read(mirror, asio::buffer(answer));
  asio::write(mirror, asio::buffer(answer.data() + nonce_bytes, proof_bytes));
  CHECK(is_cut_off(mirror));
  // The right one still comes in.
  star.planes.push_back(star.follow(1, star.key));
  auto const thrown = star.on_each([](int, ControlPlane& plane) { plane.barrier("meet", 10s); });
  CHECK_FALSE(thrown[0]);
  CHECK_FALSE(thrown[1]);
}

TEST_CASE("a proven connection that then sends forged frames is cut off") {
  for (std::uint32_t const length : {0u, 5u, 16u, 64u, 0x7fffffffu}) {
    Star star(2, 1);
    asio::io_context io;
    auto socket = connect_raw(io, star.planes[0]->port());
    prove_as_rank_1(socket, star.key);
    std::vector<std::uint8_t> frame(4 + std::min(length, 64u), 0x5a);
    for (std::size_t i = 0; i < 4; ++i) frame[i] = static_cast<std::uint8_t>(length >> (8 * i));
    asio::write(socket, asio::buffer(frame));
    CHECK(is_cut_off(socket));
    CHECK_THROWS_AS(star.planes[0]->barrier("epoch", 200ms), Error);
  }
}
