// SPDX-License-Identifier: Apache-2.0
// Who must not come in, and what one that is in must not do: replays, drips, floods, and a rank without
// limits.
#include <sys/socket.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "catch.hpp"
#include "control_plane/rank_ranges.hpp"
#include "control_plane/gather_round.hpp"
#include "control_plane/kv_store.hpp"
#include "has.hpp"
#include "is_cut_off.hpp"
#include "control_plane_fixture.hpp"
#include "transport/connect.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;
using asio::ip::tcp;

namespace {

tcp::endpoint at(std::uint16_t port) { return {asio::ip::address_v4::loopback(), port}; }

// Stands between one rank and rank 0, keeps what the rank sends, and can send each piece on twice.
class Eavesdropper {
 public:
  explicit Eavesdropper(std::uint16_t leader) : acceptor_(io_, at(0)), rank_(io_), leader_(io_) {
    leader_.connect(at(leader));
    acceptor_.async_accept(rank_, [this](const asio::error_code& error) {
      if (error) return;
      pump(rank_, leader_, to_leader_, true);
      pump(leader_, rank_, to_rank_, false);
    });
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Eavesdropper() {
    io_.stop();
    thread_.join();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  void send_twice() { twice_ = true; }
  std::vector<std::uint8_t> heard() {
    std::lock_guard const lock(mutex_);
    return heard_;
  }

 private:
  using Buffer = std::array<std::uint8_t, 4096>;
  void pump(tcp::socket& from, tcp::socket& to, Buffer& buffer, bool of_rank) {
    from.async_read_some(
        asio::buffer(buffer), [&, this, of_rank](const asio::error_code& error, std::size_t count) {
          asio::error_code broken;
          if (error) return void(to.close(broken));
          if (of_rank) {
            std::lock_guard const lock(mutex_);
            heard_.insert(heard_.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(count));
          }
          for (int i = 0; i < (of_rank && twice_ ? 2 : 1); ++i)
            asio::write(to, asio::buffer(buffer.data(), count), broken);
          if (!broken) pump(from, to, buffer, of_rank);
        });
  }

  asio::io_context io_;
  tcp::acceptor acceptor_;
  tcp::socket rank_;
  tcp::socket leader_;
  std::atomic<bool> twice_{false};
  Buffer to_leader_{};
  Buffer to_rank_{};
  std::mutex mutex_;
  std::vector<std::uint8_t> heard_;
  std::thread thread_;
};

std::shared_ptr<ControlPlane> follow_through(const Star& star, std::uint16_t port) {
  return ControlPlane::follow(1, star.options, {"127.0.0.1"}, port, star.key, Deadline(20s));
}

// A rank that has the key and says what it likes.
class Outlaw {
 public:
  explicit Outlaw(const Star& star) {
    auto [socket, keys] = connect_to_leader(io_, 1, endpoints_of({"127.0.0.1"}, star.planes[0]->port()),
                                            star.key, Deadline(20s));
    channel_ = std::make_shared<SecureChannel>(std::move(socket), keys);
    channel_->start([](const Message&) {}, [](const std::string&) {});
  }
  ~Outlaw() { channel_->close(); }
  void say(const Message& message) { channel_->send(message); }
  void run(std::chrono::milliseconds time) {
    io_.restart();
    io_.run_for(time);
  }

 private:
  asio::io_context io_;
  std::shared_ptr<SecureChannel> channel_;
};

Error failure_of(ControlPlane& plane) {
  try {
    plane.barrier("epoch", 10s);
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::system, "no failure"};
}

}  // namespace

TEST_CASE("what a rank sent does not let anybody in who sends it again") {
  Star star(2, 1);
  std::vector<std::uint8_t> heard;
  {
    Eavesdropper ear(star.planes[0]->port());
    star.planes.push_back(follow_through(star, ear.port()));
    auto const thrown = star.on_each([](int, ControlPlane& plane) { plane.barrier("meet", 10s); });
    REQUIRE_FALSE(thrown[0]);
    heard = ear.heard();
    REQUIRE(heard.size() > greeting_bytes + proof_bytes);
    asio::io_context io;
    tcp::socket again(io);
    again.connect(at(star.planes[0]->port()));
    asio::error_code ignored;
    asio::write(again, asio::buffer(heard), ignored);
    CHECK(is_cut_off(again));
    auto const after = star.on_each([](int, ControlPlane& plane) { plane.barrier("go on", 10s); });
    CHECK_FALSE(after[0]);
    CHECK_FALSE(after[1]);
  }
}

TEST_CASE("a frame that comes twice ends the connection") {
  Star star(2, 1);
  Eavesdropper ear(star.planes[0]->port());
  star.planes.push_back(follow_through(star, ear.port()));
  auto const before = star.on_each([](int, ControlPlane& plane) { plane.barrier("meet", 10s); });
  REQUIRE_FALSE(before[0]);
  ear.send_twice();
  auto const thrown = star.on_each([](int, ControlPlane& plane) {
    for (int i = 0; i < 3; ++i) plane.barrier("meet again", 10s);
  });
  REQUIRE(thrown[0]);
  CHECK(thrown[0]->code() == ErrorCode::lost_rank);
  CHECK(has(thrown[0]->what(), "rank 1 (host h1"));
  CHECK(has(thrown[0]->what(), "a frame "));
}

TEST_CASE("who drips a greeting byte by byte is cut off by the time limit") {
  Star star(2, 1);
  asio::io_context io;
  tcp::socket socket(io);
  socket.connect(at(star.planes[0]->port()));
  auto const greeting = make_greeting(1, random_nonce());
  asio::error_code error;
  for (std::size_t i = 0; i + 1 < greeting.size() && !error; ++i) {
    asio::write(socket, asio::buffer(greeting.data() + i, 1), error);
    std::this_thread::sleep_for(100ms);
  }
  CHECK(is_cut_off(socket));
}

TEST_CASE("only so many strangers are kept at a time") {
  Star star(2, 1);
  asio::io_context io;
  std::vector<tcp::socket> strangers;
  for (int i = 0; i < 600; ++i) {
    strangers.emplace_back(io);
    strangers.back().connect(at(star.planes[0]->port()));
  }
  // More than the limit and well before their time limit: the others were pushed out.
  int cut = 0;
  for (int i = 0; i < 100 && cut < 300; ++i) {
    std::this_thread::sleep_for(10ms);
    cut = 0;
    for (auto& socket : strangers) {
      char byte = 0;
      if (::recv(socket.native_handle(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0 || errno == ECONNRESET)
        ++cut;
    }
  }
  CHECK(cut >= 300);
}

TEST_CASE("a rank that opens rounds without end is stopped and named") {
  Star star(2, 1);
  Outlaw outlaw(star);
  for (int i = 0; i < 5000; ++i) {
    Arrival arrival;
    arrival.name = fmt::format("round {}", i);
    arrival.members = members_to_message({0, 1}, 2);
    arrival.root = 0;
    arrival.wait = 60s;
    outlaw.say(to_message(arrival));
  }
  outlaw.run(60s);  // until it is cut off
  auto const error = failure_of(*star.planes[0]);
  CHECK(error.code() == ErrorCode::usage);
  CHECK(has(error.what(), "rank 1 (host h1"));
  CHECK(has(error.what(), "rounds"));
}

TEST_CASE(
    "a rank that asks without end is stopped and named, as is one that stores too much past its own limits") {
  {
    Star star(2, 1);
    Outlaw outlaw(star);
    for (std::uint64_t i = 0; i < max_questions + 10; ++i)
      outlaw.say({{"is", "get"}, {"name", "nobody puts this"}, {"id", i}, {"ms", 60000}});
    outlaw.run(60s);
    auto const error = failure_of(*star.planes[0]);
    CHECK(error.code() == ErrorCode::usage);
    CHECK(has(error.what(), "rank 1 (host h1"));
  }
  Star star(2, 1);
  Outlaw outlaw(star);
  for (int i = 0; i < 9; ++i) {
    std::vector<std::uint8_t> const large(2u << 20, 1);
    outlaw.say({{"is", "put"}, {"name", fmt::format("large {}", i)}, {"value", Message::binary(large)}});
  }
  outlaw.run(60s);
  auto const error = failure_of(*star.planes[0]);
  CHECK(error.code() == ErrorCode::usage);
  CHECK(has(error.what(), "into the job's store"));
}

TEST_CASE("messages that are none end the connection of who sent them, and nothing else") {
  for (const Message& message :
       {Message(7), Message::array({1, 2}), Message{{"is", 5}}, Message{{"is", "arrive"}},
        Message{{"is", "from"}, {"rank", 0}, {"message", {{"is", "arrive"}}}},
        Message{
            {"is", "arrive"}, {"name", "x"}, {"root", 0}, {"ms", "soon"}, {"last", false}, {"blob", 1}}}) {
    INFO(message.dump());
    Star star(3, 1);
    star.planes.push_back(star.follow(2, star.key));
    Outlaw outlaw(star);
    outlaw.say(message);
    outlaw.run(500ms);
    auto const error = failure_of(*star.planes[0]);
    CHECK(error.code() == ErrorCode::lost_rank);
    CHECK(has(error.what(), "rank 1 (host h1"));
  }
}
