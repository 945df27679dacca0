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

// How long one address may take before the next is tried.
constexpr milliseconds attempt_time{2000};
// Between two tries. A refusal on a UNIX socket costs microseconds and only means that the host's leader does
// not listen yet.
constexpr milliseconds first_rest{1};
constexpr milliseconds longest_rest{500};
constexpr milliseconds longest_local_rest{10};

// One attempt. Runs the io_context itself, so nothing else may be running on it.
class Attempt {
 public:
  Attempt(asio::io_context& io, int rank, const Key& key) : io_(io), socket_(io), key_(key) {
    introduction_.rank = static_cast<std::uint32_t>(rank);
    introduction_.of_rank = random_nonce();
    greeting_ = make_greeting(introduction_.rank, introduction_.of_rank);
  }

  // Empty when it worked, else why not.
  std::string run(const Endpoint& endpoint, const Deadline& deadline) {
    result_ = fmt::format("no answer within {}", text_of(deadline.length()));
    socket_.async_connect(endpoint, [this](const asio::error_code& error) {
      if (error) return stop(error.message());
      if (!is_own_user(socket_)) return stop("it is another user's");
      asio::async_write(socket_, asio::buffer(greeting_),
                        [this](const asio::error_code& failed, std::size_t) {
                          if (failed) return stop(failed.message());
                          read_answer();
                        });
    });
    io_.restart();
    io_.run_until(deadline.when());
    if (!io_.stopped()) {
      asio::error_code ignored;
      socket_.close(ignored);
      io_.run();  // lets the cancelled handlers go
    }
    return done_ ? "" : result_;
  }

  Socket take_socket() { return std::move(socket_); }
  SessionKeys keys() const { return rank_keys(key_, introduction_); }

 private:
  void read_answer() {
    asio::async_read(socket_, asio::buffer(answer_), [this](const asio::error_code& error, std::size_t) {
      if (error) return stop(error == asio::error::eof ? "it closed the connection" : error.message());
      std::copy_n(answer_.begin(), nonce_bytes, introduction_.of_leader.begin());
      if (!equal(std::span(answer_).last<proof_bytes>(), leader_proof(key_, introduction_))) {
        return stop("whoever answers there does not have this job's key");
      }
      proof_ = rank_proof(key_, introduction_);
      asio::async_write(socket_, asio::buffer(proof_), [this](const asio::error_code& failed, std::size_t) {
        if (failed) return stop(failed.message());
        read_welcome();
      });
    });
  }
  void read_welcome() {
    asio::async_read(socket_, asio::buffer(welcome_), [this](const asio::error_code& error, std::size_t) {
      if (error) return stop(error == asio::error::eof ? "it closed the connection" : error.message());
      done_ = true;
    });
  }
  void stop(const std::string& why) {
    if (socket_.is_open()) result_ = why;
    asio::error_code ignored;
    socket_.close(ignored);
  }

  asio::io_context& io_;
  Socket socket_;
  const Key& key_;
  HandshakeTranscript introduction_;
  std::array<std::uint8_t, greeting_bytes> greeting_{};
  std::array<std::uint8_t, answer_bytes> answer_{};
  Mac proof_{};
  std::array<std::uint8_t, 1> welcome_{};
  std::string result_;
  bool done_ = false;
};

}  // namespace

std::vector<Endpoint> endpoints_of(const std::vector<std::string>& addresses, std::uint16_t port) {
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
  log::debug("control: connected to the leader at {}", name_of(endpoint));
  return {attempt.take_socket(), attempt.keys()};
}

std::pair<Socket, SessionKeys> connect_to_leader(asio::io_context& io, int rank,
                                                 const std::vector<Endpoint>& endpoints, const Key& key,
                                                 const Deadline& deadline) {
  std::string last = "it gave no address";
  bool const local = std::all_of(endpoints.begin(), endpoints.end(), is_local);
  milliseconds rest = first_rest;
  do {
    for (const auto& endpoint : endpoints) {
      try {
        return connect_once(io, rank, endpoint, key, Deadline(std::min(attempt_time, deadline.remaining())));
      } catch (const Error& error) {
        last = fmt::format("{}: {}", name_of(endpoint), error.what());
        log::debug("control: {}", last);
      }
      if (deadline.passed()) break;
    }
    std::this_thread::sleep_for(std::min(rest, deadline.remaining()));
    rest = std::min(rest * 2, local ? longest_local_rest : longest_rest);
  } while (!deadline.passed());
  throw Error(ErrorCode::deadline,
              fmt::format("join: rank {} cannot reach its leader within {}; last tried {}", rank,
                          text_of(deadline.length()), last));
}

}  // namespace muster::control
