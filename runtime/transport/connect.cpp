// SPDX-License-Identifier: Apache-2.0
#include "transport/connect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "log.hpp"
#include "muster/error.hpp"

namespace muster::control {
namespace {

using std::chrono::milliseconds;

// How long one address may take before the next one.
constexpr milliseconds attempt_timeout{2000};
// Pause between two attempts. A refused UNIX socket costs microseconds, and only means that the host leader
// does not listen yet.
constexpr milliseconds initial_backoff{1};
constexpr milliseconds max_backoff{500};
constexpr milliseconds max_local_backoff{10};

// One attempt. Runs the io_context itself, so nothing else may run on it.
class Attempt {
 public:
  Attempt(asio::io_context& io, int rank, const Key& key) : io_(io), socket_(io), key_(key) {
    transcript_.rank = static_cast<std::uint32_t>(rank);
    transcript_.client_nonce = random_nonce();
    client_hello_ = make_client_hello(transcript_.rank, transcript_.client_nonce);
  }

  // Returns an empty string on success, else the reason.
  std::string run(const Endpoint& endpoint, const Deadline& deadline) {
    result_ = fmt::format("no answer within {}", format_duration(deadline.length()));
    socket_.async_connect(endpoint, [this](const asio::error_code& error) {
      if (error) return fail(error.message());
      if (!is_own_user(socket_)) return fail("the socket belongs to another user");
      asio::async_write(socket_, asio::buffer(client_hello_),
                        [this](const asio::error_code& failed, std::size_t) {
                          if (failed) return fail(failed.message());
                          read_server_hello();
                        });
    });
    io_.restart();
    io_.run_until(deadline.when());
    if (!io_.stopped()) {
      asio::error_code ignored;
      socket_.close(ignored);
      io_.run();  // runs the cancelled handlers
    }
    return done_ ? "" : result_;
  }

  Socket take_socket() { return std::move(socket_); }
  SessionKeys keys() const { return client_keys(key_, transcript_); }

 private:
  void read_server_hello() {
    asio::async_read(
        socket_, asio::buffer(server_hello_), [this](const asio::error_code& error, std::size_t) {
          if (error) return fail(error == asio::error::eof ? "it closed the connection" : error.message());
          std::copy_n(server_hello_.begin(), nonce_bytes, transcript_.server_nonce.begin());
          if (!equal(std::span(server_hello_).last<mac_bytes>(), server_mac(key_, transcript_))) {
            return fail("the process that answers there does not have this job's key");
          }
          mac_ = client_mac(key_, transcript_);
          asio::async_write(socket_, asio::buffer(mac_), [this](const asio::error_code& failed, std::size_t) {
            if (failed) return fail(failed.message());
            read_accepted_byte();
          });
        });
  }
  void read_accepted_byte() {
    asio::async_read(
        socket_, asio::buffer(accepted_byte_), [this](const asio::error_code& error, std::size_t) {
          if (error) return fail(error == asio::error::eof ? "it closed the connection" : error.message());
          done_ = true;
        });
  }
  void fail(const std::string& why) {
    if (socket_.is_open()) result_ = why;
    asio::error_code ignored;
    socket_.close(ignored);
  }

  asio::io_context& io_;
  Socket socket_;
  const Key& key_;
  HandshakeTranscript transcript_;
  std::array<std::uint8_t, client_hello_bytes> client_hello_{};
  std::array<std::uint8_t, server_hello_bytes> server_hello_{};
  Mac mac_{};
  std::array<std::uint8_t, 1> accepted_byte_{};
  std::string result_;
  bool done_ = false;
};

}  // namespace

std::vector<Endpoint> parse_endpoints(const std::vector<std::string>& addresses, std::uint16_t port) {
  std::vector<Endpoint> endpoints;
  for (const auto& text : addresses) {
    asio::error_code bad;
    auto const address = asio::ip::make_address(text, bad);
    if (!bad) endpoints.push_back(tcp_endpoint(address, port));
  }
  return endpoints;
}

std::pair<Socket, SessionKeys> connect_once(asio::io_context& io, int rank, const Endpoint& endpoint,
                                            const Key& key, const Deadline& deadline) {
  Attempt attempt(io, rank, key);
  auto const why = attempt.run(endpoint, deadline);
  if (!why.empty()) throw Error(ErrorCode::system, why);
  log::debug("control: connected to the leader at {}", to_string(endpoint));
  return {attempt.take_socket(), attempt.keys()};
}

std::pair<Socket, SessionKeys> connect_to_leader(asio::io_context& io, int rank,
                                                 const std::vector<Endpoint>& endpoints, const Key& key,
                                                 const Deadline& deadline) {
  std::string last_error = "it gave no address";
  bool const local = std::all_of(endpoints.begin(), endpoints.end(), is_local);
  milliseconds backoff = initial_backoff;
  do {
    for (const auto& endpoint : endpoints) {
      try {
        return connect_once(io, rank, endpoint, key,
                            Deadline(std::min(attempt_timeout, deadline.remaining())));
      } catch (const Error& error) {
        last_error = fmt::format("{}: {}", to_string(endpoint), error.what());
        log::debug("control: {}", last_error);
      }
      if (deadline.passed()) break;
    }
    std::this_thread::sleep_for(std::min(backoff, deadline.remaining()));
    backoff = std::min(backoff * 2, local ? max_local_backoff : max_backoff);
  } while (!deadline.passed());
  throw Error(ErrorCode::deadline,
              fmt::format("join: rank {} cannot reach its leader within {}; last tried {}", rank,
                          format_duration(deadline.length()), last_error));
}

}  // namespace muster::control
