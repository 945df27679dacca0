// SPDX-License-Identifier: Apache-2.0
// How ranks that no PMIx introduces get the job's key.
#include <atomic>
#include <map>

#include "rendezvous_fixture.hpp"
#include "soon.hpp"
#include "transport/connect.hpp"

using namespace meetings;

TEST_CASE("a word without proof counts for a rank that there is and an obstacle that is known") {
  asio::io_context io;
  auto const job = new_job();
  auto const seal = make_peercred_codec();
  std::map<int, AuthFailure> declined;
  KeyServer desk(std::make_unique<control::Acceptor>(io, "muster/" + job), *seal, job, 3,
               JobCredentials{control::random_key(), 1}, nullptr,
               [&](int rank, AuthFailure obstacle) { declined[rank] = obstacle; });
  std::thread server([&] { io.run_for(20s); });
  auto const at = control::local_endpoint("muster/" + job);
  asio::io_context mine;
  report_auth_failure(mine, at, 1, AuthFailure::no_library, Deadline(5s));
  report_auth_failure(mine, at, 0, AuthFailure::no_library, Deadline(5s));
  report_auth_failure(mine, at, 3, AuthFailure::no_library, Deadline(5s));
  report_auth_failure(mine, at, -1, AuthFailure::no_library, Deadline(5s));
  report_auth_failure(mine, at, 2, static_cast<AuthFailure>(77), Deadline(5s));
  asio::post(io, [&] {
    desk.close();
    io.stop();
  });
  server.join();
  CHECK(declined == std::map<int, AuthFailure>{{1, AuthFailure::no_library}});
}

TEST_CASE("the desk opens several credentials at once") {
  struct Slow : CredentialCodec {
    std::vector<std::uint8_t> close(std::span<const std::uint8_t> bytes) override {
      return {bytes.begin(), bytes.end()};
    }
    std::vector<std::uint8_t> open(std::span<const std::uint8_t> sealed) override {
      int const now = ++opening;
      for (int so_far = most; so_far < now && !most.compare_exchange_weak(so_far, now);) {
      }
      std::this_thread::sleep_for(200ms);
      --opening;
      return {sealed.begin(), sealed.end()};
    }
    std::atomic<int> opening{0};
    std::atomic<int> most{0};
  } slow;
  asio::io_context io;
  auto const job = new_job();
  KeyServer desk(std::make_unique<control::Acceptor>(io, "muster/" + job), slow, job, 9,
               JobCredentials{control::random_key(), 1}, nullptr);
  std::thread server([&] { io.run_for(20s); });
  std::vector<std::thread> ranks;
  std::atomic<int> given{0};
  for (int r = 1; r < 9; ++r) {
    ranks.emplace_back([&, r] {
      asio::io_context mine;
      auto const seal = make_peercred_codec();
      request_job_key(mine, control::local_endpoint("muster/" + job), *seal, job, r, Deadline(20s));
      ++given;
    });
  }
  for (auto& rank : ranks) rank.join();
  asio::post(io, [&] {
    desk.close();
    io.stop();
  });
  server.join();
  CHECK(given == 8);
  CHECK(slow.most > 1);
}

TEST_CASE("what waits to be opened is not opened when the desk goes") {
  struct Slow : CredentialCodec {
    std::vector<std::uint8_t> close(std::span<const std::uint8_t> bytes) override {
      return {bytes.begin(), bytes.end()};
    }
    std::vector<std::uint8_t> open(std::span<const std::uint8_t> sealed) override {
      ++opened;
      std::this_thread::sleep_for(300ms);
      return {sealed.begin(), sealed.end()};
    }
    std::atomic<int> opened{0};
  } slow;
  constexpr int ranks = 40;  // many times as many as are opened at once
  asio::io_context io;
  auto const job = new_job();
  std::optional<KeyServer> desk;
  desk.emplace(std::make_unique<control::Acceptor>(io, "muster/" + job), slow, job, ranks,
               JobCredentials{control::random_key(), 1}, nullptr);
  std::thread server([&] { io.run_for(20s); });
  std::vector<std::thread> askers;
  for (int r = 1; r < ranks; ++r) {
    askers.emplace_back([&, r] {
      asio::io_context mine;
      auto const seal = make_peercred_codec();
      try {
        request_job_key(mine, control::local_endpoint("muster/" + job), *seal, job, r, Deadline(200ms));
      } catch (const Error&) {
      }
    });
  }
  for (auto& asker : askers) asker.join();
  asio::post(io, [&] {
    desk->close();
    io.stop();
  });
  server.join();
  CHECK(slow.opened > 0);
  desk.reset();
  CHECK(slow.opened < ranks - 1);
}

TEST_CASE("the desk gives nothing to another job, another frame or a rank that is not there") {
  asio::io_context io;
  auto const job = new_job();
  auto const seal = make_peercred_codec();
  JobCredentials const ticket{control::random_key(), 4711};
  KeyServer desk(std::make_unique<control::Acceptor>(io, "muster/" + job), *seal, job, 3, ticket, {});
  std::thread server([&] { io.run_for(20s); });
  auto const at = control::local_endpoint("muster/" + job);
  asio::io_context mine;
  auto const given = request_job_key(mine, at, *seal, job, 2, Deadline(5s));
  CHECK((given.key == ticket.key && given.port == 4711));
  CHECK_THROWS_AS(request_job_key(mine, at, *seal, "another", 2, Deadline(5s)), Error);
  CHECK_THROWS_AS(request_job_key(mine, at, *seal, job, 3, Deadline(5s)), Error);
  CHECK_THROWS_AS(request_job_key(mine, at, *seal, job, 0, Deadline(5s)), Error);
  for (const std::string& bytes : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(20000, 'x'),
                                   std::string("mustkey\x01\xff\xff\xff\xff", 12),
                                   std::string("mustkey\x01\x04\x00\x00\x00\x9f\x9f\x9f\x9f", 16)}) {
    control::Socket socket(mine);
    socket.connect(at);
    asio::error_code error;
    asio::write(socket, asio::buffer(bytes), error);
    char byte = 0;
    asio::read(socket, asio::buffer(&byte, 1), error);
    CHECK(error);  // cut off, without an answer
  }
  asio::post(io, [&] {
    desk.close();
    io.stop();
  });
  server.join();
}

TEST_CASE("no credential is made for a desk that is not there") {
  struct Counting : CredentialCodec {
    std::vector<std::uint8_t> close(std::span<const std::uint8_t> bytes) override {
      ++closed;
      return {bytes.begin(), bytes.end()};
    }
    std::vector<std::uint8_t> open(std::span<const std::uint8_t> sealed) override {
      return {sealed.begin(), sealed.end()};
    }
    int closed = 0;
  } seal;
  asio::io_context mine;
  auto const nobody = control::local_endpoint("muster/" + new_job());
  CHECK_THROWS_AS(request_job_key(mine, nobody, seal, "job", 1, Deadline(1s)), Error);
  CHECK(seal.closed == 0);
}

TEST_CASE("a desk that accepts but never answers does not hold a rank beyond its deadline") {
  auto const seal = make_peercred_codec();
  asio::io_context mine;
  auto const began = std::chrono::steady_clock::now();
  asio::io_context tcp;
  asio::ip::tcp::acceptor silent(tcp, asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  CHECK_THROWS_AS(
      request_job_key(mine,
                     control::tcp_endpoint(asio::ip::address_v4::loopback(), silent.local_endpoint().port()),
                     *seal, "job", 1, Deadline(300ms)),
      Error);
  CHECK(std::chrono::steady_clock::now() - began < soon);
}
