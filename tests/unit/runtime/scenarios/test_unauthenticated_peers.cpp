// SPDX-License-Identifier: Apache-2.0
// Peers that must not be accepted (replays, slow or many connections), and accepted ranks that exceed their
// limits.
#include <sys/socket.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "catch.hpp"
#include "control_plane/gather_round.hpp"
#include "control_plane/kv_store.hpp"
#include "control_plane/rank_ranges.hpp"
#include "has.hpp"
#include "runtime/control_plane/control_plane_fixture.hpp"
#include "runtime/transport/is_cut_off.hpp"
#include "transport/connect.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;
using asio::ip::tcp;

namespace {

tcp::endpoint at(std::uint16_t port) { return {asio::ip::address_v4::loopback(), port}; }

// A proxy between one rank and rank 0: records what the rank sends, and can forward each piece twice.
class Eavesdropper {
 public:
  explicit Eavesdropper(std::uint16_t server_port) : acceptor_(io_, at(0)), rank_(io_), server_(io_) {
    server_.connect(at(server_port));
    acceptor_.async_accept(rank_, [this](const asio::error_code& error) {
      if (error) return;
      pump(rank_, server_, to_server_, true);
      pump(server_, rank_, to_rank_, false);
    });
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Eavesdropper() {
    io_.stop();
    thread_.join();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  void send_twice() { twice_ = true; }
  std::vector<std::uint8_t> recorded() {
    std::lock_guard const lock(mutex_);
    return recorded_;
  }

 private:
  using Buffer = std::array<std::uint8_t, 4096>;
  void pump(tcp::socket& from, tcp::socket& to, Buffer& buffer, bool from_rank) {
    from.async_read_some(asio::buffer(buffer),
                         [&, this, from_rank](const asio::error_code& error, std::size_t count) {
                           asio::error_code broken;
                           if (error) return void(to.close(broken));
                           if (from_rank) {
                             std::lock_guard const lock(mutex_);
                             recorded_.insert(recorded_.end(), buffer.begin(),
                                              buffer.begin() + static_cast<std::ptrdiff_t>(count));
                           }
                           for (int i = 0; i < (from_rank && twice_ ? 2 : 1); ++i)
                             asio::write(to, asio::buffer(buffer.data(), count), broken);
                           if (!broken) pump(from, to, buffer, from_rank);
                         });
  }

  asio::io_context io_;
  tcp::acceptor acceptor_;
  tcp::socket rank_;
  tcp::socket server_;
  std::atomic<bool> twice_{false};
  Buffer to_server_{};
  Buffer to_rank_{};
  std::mutex mutex_;
  std::vector<std::uint8_t> recorded_;
  std::thread thread_;
};

std::shared_ptr<ControlPlane> connect_through(const ControlPlaneFixture& fixture, std::uint16_t port) {
  return ControlPlane::connect(1, fixture.options, {"127.0.0.1"}, port, fixture.key, Deadline(20s));
}

// A rank that has the key and sends arbitrary messages.
class RogueRank {
 public:
  explicit RogueRank(const ControlPlaneFixture& fixture) {
    auto [socket, keys] =
        connect_to_leader(io_, 1, parse_endpoints({"127.0.0.1"}, fixture.planes[0]->port()),
                          purpose_key(fixture.key, purpose::control_plane, 0), Deadline(20s));
    channel_ = std::make_shared<SecureChannel>(std::move(socket), keys);
    channel_->start([](const Message&) {}, [](const std::string&) {});
  }
  ~RogueRank() { channel_->close(); }
  void send(const Message& message) { channel_->send(message); }
  void run(std::chrono::milliseconds time) {
    io_.restart();
    io_.run_for(time);
  }

 private:
  asio::io_context io_;
  std::shared_ptr<SecureChannel> channel_;
};

Error wait_for_failure(ControlPlane& plane) {
  try {
    plane.barrier("epoch", 10s);
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::system, "no failure"};
}

}  // namespace

TEST_CASE("when recorded bytes of a rank are replayed, the connection is closed") {
  ControlPlaneFixture fixture(2, 1);
  std::vector<std::uint8_t> recorded;
  {
    Eavesdropper eavesdropper(fixture.planes[0]->port());
    fixture.planes.push_back(connect_through(fixture, eavesdropper.port()));
    auto const thrown = fixture.run_on_all([](int, ControlPlane& plane) { plane.barrier("meet", 10s); });
    REQUIRE_FALSE(thrown[0]);
    recorded = eavesdropper.recorded();
    REQUIRE(recorded.size() > client_hello_bytes + mac_bytes);
    asio::io_context io;
    tcp::socket again(io);
    again.connect(at(fixture.planes[0]->port()));
    asio::error_code ignored;
    asio::write(again, asio::buffer(recorded), ignored);
    CHECK(is_cut_off(again));
    auto const after = fixture.run_on_all([](int, ControlPlane& plane) { plane.barrier("go on", 10s); });
    CHECK_FALSE(after[0]);
    CHECK_FALSE(after[1]);
  }
}

TEST_CASE("when a frame is sent twice, the connection is closed") {
  ControlPlaneFixture fixture(2, 1);
  Eavesdropper eavesdropper(fixture.planes[0]->port());
  fixture.planes.push_back(connect_through(fixture, eavesdropper.port()));
  auto const before = fixture.run_on_all([](int, ControlPlane& plane) { plane.barrier("meet", 10s); });
  REQUIRE_FALSE(before[0]);
  eavesdropper.send_twice();
  auto const thrown = fixture.run_on_all([](int, ControlPlane& plane) {
    for (int i = 0; i < 3; ++i) plane.barrier("meet again", 10s);
  });
  REQUIRE(thrown[0]);
  CHECK(thrown[0]->code() == ErrorCode::lost_rank);
  CHECK(has(thrown[0]->what(), "rank 1 (host h1"));
  CHECK(has(thrown[0]->what(), "a frame "));
}

TEST_CASE("when a peer sends its client hello byte by byte, the authentication timeout closes it") {
  ControlPlaneFixture fixture(2, 1);
  asio::io_context io;
  tcp::socket socket(io);
  socket.connect(at(fixture.planes[0]->port()));
  auto const client_hello = make_client_hello(1, KeyPair().public_key());
  asio::error_code error;
  for (std::size_t i = 0; i + 1 < client_hello.size() && !error; ++i) {
    asio::write(socket, asio::buffer(client_hello.data() + i, 1), error);
    std::this_thread::sleep_for(100ms);
  }
  CHECK(is_cut_off(socket));
}

TEST_CASE("when too many peers connect, unauthenticated ones are evicted") {
  ControlPlaneFixture fixture(2, 1);
  asio::io_context io;
  std::vector<tcp::socket> clients;
  Deadline const limit(2500ms);  // before the authentication timeout
  for (int i = 0; i < 600; ++i) {
    clients.emplace_back(io);
    clients.back().connect(at(fixture.planes[0]->port()));
  }
  // More connections than the limit: the surplus was evicted.
  int cut = 0;
  do {
    std::this_thread::sleep_for(10ms);
    cut = 0;
    for (auto& socket : clients) {
      char byte = 0;
      if (::recv(socket.native_handle(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0 || errno == ECONNRESET)
        ++cut;
    }
  } while (cut < 300 && !limit.passed());
  CHECK(cut >= 300);
}

TEST_CASE("when a rank opens too many rounds, the job fails and names it") {
  ControlPlaneFixture fixture(2, 1);
  RogueRank rogue(fixture);
  for (int i = 0; i < 5000; ++i) {
    protocol::Contribution contribution;
    contribution.name = fmt::format("round {}", i);
    contribution.members = encode_ranks({0, 1}, 2);
    contribution.root = 0;
    contribution.wait = 60s;
    rogue.send(encode(contribution));
  }
  rogue.run(60s);  // until it is disconnected
  auto const error = wait_for_failure(*fixture.planes[0]);
  CHECK(error.code() == ErrorCode::usage);
  CHECK(has(error.what(), "rank 1 (host h1"));
  CHECK(has(error.what(), "rounds"));
}

TEST_CASE("when a rank has too many waiting requests, or stores too much, the job fails and names it") {
  {
    ControlPlaneFixture fixture(2, 1);
    RogueRank rogue(fixture);
    for (std::uint64_t i = 0; i < max_waiters + 10; ++i)
      rogue.send(encode(protocol::Get{i, "nobody puts this", 60s}));
    rogue.run(60s);
    auto const error = wait_for_failure(*fixture.planes[0]);
    CHECK(error.code() == ErrorCode::usage);
    CHECK(has(error.what(), "rank 1 (host h1"));
  }
  ControlPlaneFixture fixture(2, 1);
  RogueRank rogue(fixture);
  for (int i = 0; i < 9; ++i) {
    std::vector<std::uint8_t> const large(2u << 20, 1);
    rogue.send(encode(protocol::Put{fmt::format("large {}", i), large}));
  }
  rogue.run(60s);
  auto const error = wait_for_failure(*fixture.planes[0]);
  CHECK(error.code() == ErrorCode::usage);
  CHECK(has(error.what(), "into the job's store"));
}

TEST_CASE("when a rank sends an invalid message, only its own connection is closed") {
  auto of_rank_0 = encode(protocol::FromRank{0, {{"type", "contribution"}}});
  auto wrong_wait = encode(protocol::Contribution{"x", nullptr, 0, 0ms, false, {}});
  wrong_wait["wait"] = "soon";
  for (const Message& message : {Message(7), Message::array({1, 2}), Message{{"type", 5}},
                                 Message{{"type", "contribution"}}, of_rank_0, wrong_wait}) {
    INFO(message.dump());
    ControlPlaneFixture fixture(3, 1);
    fixture.planes.push_back(fixture.connect(2, fixture.key));
    RogueRank rogue(fixture);
    rogue.send(message);
    rogue.run(500ms);
    auto const error = wait_for_failure(*fixture.planes[0]);
    CHECK(error.code() == ErrorCode::lost_rank);
    CHECK(has(error.what(), "rank 1 (host h1"));
  }
}
