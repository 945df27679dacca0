// SPDX-License-Identifier: Apache-2.0
// How ranks get the job's key without PMIx.
#include <malloc.h>

#include <atomic>

#include "rendezvous_fixture.hpp"
#include "soon.hpp"
#include "transport/connect.hpp"

using namespace rendezvous_test;

TEST_CASE("when several requests arrive, their credentials are decoded in parallel") {
  struct Slow : CredentialCodec {
    std::vector<std::uint8_t> encode(std::span<const std::uint8_t> bytes) override {
      return {bytes.begin(), bytes.end()};
    }
    std::vector<std::uint8_t> decode(std::span<const std::uint8_t> credential) override {
      int const now = ++decoding;
      for (int so_far = most; so_far < now && !most.compare_exchange_weak(so_far, now);) {
      }
      std::this_thread::sleep_for(200ms);
      --decoding;
      return {credential.begin(), credential.end()};
    }
    std::atomic<int> decoding{0};
    std::atomic<int> most{0};
  } slow;
  asio::io_context io;
  auto const job = new_job();
  KeyServer key_server(std::make_unique<control::Acceptor>(io, "muster/" + job), slow, job, 9,
                       JobCredentials{control::random_key(), 1}, nullptr);
  std::thread server([&] { io.run_for(20s); });
  std::vector<std::thread> ranks;
  std::atomic<int> given{0};
  for (int r = 1; r < 9; ++r) {
    ranks.emplace_back([&, r] {
      asio::io_context mine;
      auto const codec = make_peercred_codec();
      request_job_key(mine, {control::local_endpoint("muster/" + job)}, *codec, job, r, Deadline(20s));
      ++given;
    });
  }
  for (auto& rank : ranks) rank.join();
  asio::post(io, [&] {
    key_server.close();
    io.stop();
  });
  server.join();
  CHECK(given == 8);
  CHECK(slow.most > 1);
}

TEST_CASE("when the key server is destroyed, the queued credentials are not decoded") {
  struct Slow : CredentialCodec {
    std::vector<std::uint8_t> encode(std::span<const std::uint8_t> bytes) override {
      return {bytes.begin(), bytes.end()};
    }
    std::vector<std::uint8_t> decode(std::span<const std::uint8_t> credential) override {
      ++decoded;
      std::this_thread::sleep_for(300ms);
      return {credential.begin(), credential.end()};
    }
    std::atomic<int> decoded{0};
  } slow;
  constexpr int ranks = 40;  // many times as many as are decoded in parallel
  asio::io_context io;
  auto const job = new_job();
  std::optional<KeyServer> key_server;
  key_server.emplace(std::make_unique<control::Acceptor>(io, "muster/" + job), slow, job, ranks,
                     JobCredentials{control::random_key(), 1}, nullptr);
  std::thread server([&] { io.run_for(20s); });
  std::vector<std::thread> requesters;
  auto const add_requester = [&](int rank, std::chrono::milliseconds deadline) {
    requesters.emplace_back([&, rank, deadline] {
      asio::io_context mine;
      auto const codec = make_peercred_codec();
      try {
        request_job_key(mine, {control::local_endpoint("muster/" + job)}, *codec, job, rank,
                        Deadline(deadline));
      } catch (const Error&) {
      }
    });
  };
  // The others, which wait for a short time, begin when the server works.
  add_requester(1, 20s);
  for (Deadline const limit(20s); slow.decoded == 0 && !limit.passed();) std::this_thread::sleep_for(1ms);
  for (int r = 2; r < ranks; ++r) add_requester(r, 200ms);
  for (std::size_t i = 1; i < requesters.size(); ++i) requesters[i].join();
  asio::post(io, [&] {
    key_server->close();
    io.stop();
  });
  server.join();
  CHECK(slow.decoded > 0);
  key_server.reset();
  requesters[0].join();
  CHECK(slow.decoded < ranks - 1);
}

TEST_CASE("requests of strangers who have gone are neither decoded nor kept, and a rank is served") {
  struct Gated : CredentialCodec {
    std::vector<std::uint8_t> encode(std::span<const std::uint8_t> bytes) override {
      return {bytes.begin(), bytes.end()};
    }
    std::vector<std::uint8_t> decode(std::span<const std::uint8_t> credential) override {
      ++decoded;
      opened.wait(false);
      return {credential.begin(), credential.end()};
    }
    std::atomic<int> decoded{0};
    std::atomic<bool> opened{false};
  } gated;
  asio::io_context io;
  auto const job = new_job();
  auto const at = control::local_endpoint("muster/" + job);
  KeyServer key_server(std::make_unique<control::Acceptor>(io, "muster/" + job), gated, job, 3,
                       JobCredentials{control::random_key(), 1}, nullptr);
  std::thread server([&] { io.run_for(20s); });
  asio::io_context mine;
  // The largest request, which cannot be decoded.
  auto const request = std::string("mustkey\x01\x00\x20\x00\x00", 12) + std::string(8192, '\x9f');
  auto const send_request = [&](control::Socket& socket) {
    socket.connect(at);
    asio::error_code evicted;
    asio::write(socket, asio::buffer(request), evicted);
  };
  std::vector<control::Socket> strangers;
  for (int i = 0; i < 4; ++i) send_request(strangers.emplace_back(mine));
  while (gated.decoded < 4) std::this_thread::sleep_for(1ms);  // all threads are busy
  auto const memory = mallinfo2().uordblks;
  for (int i = 0; i < 2000; ++i) {
    control::Socket gone(mine);
    send_request(gone);
  }
  control::Socket last(mine);
  last.connect(at);
  asio::error_code cut_off;
  asio::write(last, asio::buffer(std::string("GET / HTTP/1.1\r\n\r\n")), cut_off);
  char byte = 0;
  asio::read(last, asio::buffer(&byte, 1), cut_off);  // the server has read the others before
  // As many requests as twice the table of connections take 4 MB, all of them 17 MB.
  CHECK(mallinfo2().uordblks < memory + (10u << 20));
  gated.opened = true;
  gated.opened.notify_all();
  auto const codec = make_peercred_codec();
  CHECK_NOTHROW(request_job_key(mine, {at}, *codec, job, 1, Deadline(20s)));
  CHECK(gated.decoded == 5);  // one on each thread, and the rank's
  asio::post(io, [&] {
    key_server.close();
    io.stop();
  });
  server.join();
}

TEST_CASE("when the job, the frame or the rank is wrong, the key server sends no key") {
  asio::io_context io;
  auto const job = new_job();
  auto const codec = make_peercred_codec();
  JobCredentials const credentials{control::random_key(), 4711};
  KeyServer key_server(std::make_unique<control::Acceptor>(io, "muster/" + job), *codec, job, 3, credentials,
                       {});
  std::thread server([&] { io.run_for(20s); });
  auto const at = control::local_endpoint("muster/" + job);
  asio::io_context mine;
  auto const given = request_job_key(mine, {at}, *codec, job, 2, Deadline(5s)).first;
  CHECK((given.key == credentials.key && given.port == 4711));
  CHECK_THROWS_AS(request_job_key(mine, {at}, *codec, "another", 2, Deadline(5s)), Error);
  CHECK_THROWS_AS(request_job_key(mine, {at}, *codec, job, 3, Deadline(5s)), Error);
  CHECK_THROWS_AS(request_job_key(mine, {at}, *codec, job, 0, Deadline(5s)), Error);
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
    key_server.close();
    io.stop();
  });
  server.join();
}

TEST_CASE("when no key server listens, no credential is made") {
  struct Counting : CredentialCodec {
    std::vector<std::uint8_t> encode(std::span<const std::uint8_t> bytes) override {
      ++encoded;
      return {bytes.begin(), bytes.end()};
    }
    std::vector<std::uint8_t> decode(std::span<const std::uint8_t> credential) override {
      return {credential.begin(), credential.end()};
    }
    int encoded = 0;
  } codec;
  asio::io_context mine;
  auto const nobody = control::local_endpoint("muster/" + new_job());
  CHECK_THROWS_AS(request_job_key(mine, {nobody}, codec, "job", 1, Deadline(1s)), Error);
  CHECK(codec.encoded == 0);
}

TEST_CASE("strangers who accept connections and never answer do not delay a request") {
  asio::io_context io;
  auto const job = new_job();
  auto const codec = make_peercred_codec();
  std::vector<asio::ip::tcp::acceptor> strangers;
  std::vector<control::Endpoint> endpoints;
  for (int i = 0; i < 7; ++i) {
    auto& stranger = strangers.emplace_back(io, asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    endpoints.push_back(stranger.local_endpoint());
  }
  auto acceptor = std::make_unique<control::Acceptor>(io, std::vector<std::uint16_t>{0});
  endpoints.push_back(control::tcp_endpoint(asio::ip::address_v4::loopback(), acceptor->port()));
  KeyServer key_server(std::move(acceptor), *codec, job, 2, JobCredentials{control::random_key(), 4711},
                       nullptr);
  std::thread server([&] { io.run_for(20s); });
  asio::io_context mine;
  // Each of them would take this deadline.
  auto const [credentials, from] = request_job_key(mine, endpoints, *codec, job, 1, Deadline(10s));
  CHECK(credentials.port == 4711);
  CHECK(from == endpoints.back());
  asio::post(io, [&] {
    key_server.close();
    io.stop();
  });
  server.join();
}

TEST_CASE("when no endpoint gives the key, the error is that of the one where the request came furthest") {
  asio::io_context io;
  auto const job = new_job();
  auto const codec = make_peercred_codec();
  auto acceptor = std::make_unique<control::Acceptor>(io, std::vector<std::uint16_t>{0});
  auto const rank_0 = control::tcp_endpoint(asio::ip::address_v4::loopback(), acceptor->port());
  auto const nobody = control::tcp_endpoint(asio::ip::address_v4::loopback(), free_port());
  KeyServer key_server(std::move(acceptor), *codec, job, 2, JobCredentials{control::random_key(), 1},
                       nullptr);
  std::thread server([&] { io.run_for(20s); });
  asio::io_context mine;
  std::string reason;
  try {
    request_job_key(mine, {nobody, rank_0, nobody}, *codec, "another", 1, Deadline(10s));
  } catch (const Error& error) {
    reason = error.what();
  }
  CHECK(reason == control::to_string(rank_0) + ": it closed the connection");
  asio::post(io, [&] {
    key_server.close();
    io.stop();
  });
  server.join();
}

TEST_CASE("when a key server accepts but never answers, the request ends at its deadline") {
  auto const codec = make_peercred_codec();
  asio::io_context mine;
  auto const began = std::chrono::steady_clock::now();
  asio::io_context tcp;
  asio::ip::tcp::acceptor silent(tcp, asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  CHECK_THROWS_AS(
      request_job_key(
          mine, {control::tcp_endpoint(asio::ip::address_v4::loopback(), silent.local_endpoint().port())},
          *codec, "job", 1, Deadline(300ms)),
      Error);
  CHECK(std::chrono::steady_clock::now() - began < soon);
}
