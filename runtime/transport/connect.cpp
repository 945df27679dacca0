// SPDX-License-Identifier: Apache-2.0
#include "transport/connect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "log.hpp"
#include "muster/error.hpp"

namespace muster::control {
namespace {

using std::chrono::milliseconds;

// How long one attempt at all addresses may take.
constexpr milliseconds attempt_timeout{2000};
// Pause between two attempts. A refused UNIX socket costs microseconds, and only means that the host leader
// does not listen yet.
constexpr milliseconds initial_backoff{1};
constexpr milliseconds max_backoff{500};
constexpr milliseconds max_local_backoff{10};

// A connection to one endpoint, up to the proof of the process there.
class Attempt : public std::enable_shared_from_this<Attempt> {
 public:
  // `on_proof`: true when this attempt is to go on, as the first whose other side has the key.
  Attempt(asio::io_context& io, int rank, const Key& key, std::function<bool()> on_proof)
      : socket_(io), key_(key), on_proof_(std::move(on_proof)) {
    transcript_.rank = static_cast<std::uint32_t>(rank);
    transcript_.client_key = own_.public_key();
    client_hello_ = make_client_hello(transcript_.rank, transcript_.client_key);
  }

  void start(const Endpoint& endpoint) {
    socket_.async_connect(endpoint, [self = shared_from_this()](const asio::error_code& error) {
      if (error) return self->fail(error.message());
      if (!is_own_user(self->socket_)) return self->fail("the socket belongs to another user");
      self->write(self->client_hello_, [self] { self->read_server_hello(); });
    });
  }
  void close() {
    asio::error_code ignored;
    socket_.close(ignored);
  }

  bool done() const { return done_; }
  // Empty while it is not known.
  const std::string& failure() const { return failure_; }
  ErrorCode code() const { return code_; }
  Socket take_socket() { return std::move(socket_); }
  const SessionKeys& keys() const { return keys_; }

 private:
  template <typename Buffer, typename Next>
  void write(const Buffer& buffer, Next next) {
    asio::async_write(socket_, asio::buffer(buffer),
                      [self = shared_from_this(), next](const asio::error_code& error, std::size_t) {
                        error ? self->fail(error.message()) : next();
                      });
  }
  template <typename Buffer, typename Next>
  void read(Buffer& buffer, Next next) {
    asio::async_read(socket_, asio::buffer(buffer),
                     [self = shared_from_this(), next](const asio::error_code& error, std::size_t) {
                       if (!error) return next();
                       self->fail(error == asio::error::eof ? "it closed the connection" : error.message());
                     });
  }

  void read_server_hello() {
    read(server_hello_, [self = shared_from_this()] { self->check_server_hello(); });
  }
  void check_server_hello() try {
    std::copy_n(server_hello_.begin(), public_key_bytes, transcript_.server_key.begin());
    if (!equal(std::span(server_hello_).last<mac_bytes>(), server_mac(key_, transcript_)))
      return fail("the process that answers there does not have this job's key", ErrorCode::environment);
    keys_ = client_keys(key_, transcript_, own_);
    if (!on_proof_()) return close();
    mac_ = client_mac(key_, transcript_);
    write(mac_,
          [self = shared_from_this()] { self->read(self->accepted_byte_, [self] { self->done_ = true; }); });
  } catch (const Error& error) {
    fail(error.what());
  }
  void fail(const std::string& why, ErrorCode code = ErrorCode::system) {
    if (socket_.is_open()) {  // else close() has cancelled it
      failure_ = why;
      code_ = code;
    }
    close();
  }

  Socket socket_;
  const Key& key_;
  std::function<bool()> on_proof_;
  KeyPair own_;
  SessionKeys keys_;
  HandshakeTranscript transcript_;
  std::array<std::uint8_t, client_hello_bytes> client_hello_{};
  std::array<std::uint8_t, server_hello_bytes> server_hello_{};
  Mac mac_{};
  std::array<std::uint8_t, 1> accepted_byte_{};
  std::string failure_;
  ErrorCode code_ = ErrorCode::system;
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

std::pair<Socket, SessionKeys> connect_once(asio::io_context& io, int rank,
                                            const std::vector<Endpoint>& endpoints, const Key& key,
                                            const Deadline& deadline) {
  if (endpoints.empty()) throw Error(ErrorCode::system, "it gave no address");
  std::vector<std::shared_ptr<Attempt>> attempts;
  bool proved = false;  // one process has the key; the leader must not see this rank twice
  for (const auto& endpoint : endpoints) {
    attempts.push_back(
        std::make_shared<Attempt>(io, rank, key, [&proved] { return !std::exchange(proved, true); }));
    attempts.back()->start(endpoint);
  }
  auto const find_done = [&] {
    return std::find_if(attempts.begin(), attempts.end(),
                        [](const auto& attempt) { return attempt->done(); });
  };
  io.restart();
  while (find_done() == attempts.end() && !io.stopped() && !deadline.passed())
    io.run_one_until(deadline.when());
  auto const connected = find_done();
  for (auto at = attempts.begin(); at != attempts.end(); ++at)
    if (at != connected) (*at)->close();
  io.restart();
  io.run();  // runs the cancelled handlers
  if (connected != attempts.end()) {
    log::debug("control: connected to the leader at {}",
               to_string(endpoints[static_cast<std::size_t>(connected - attempts.begin())]));
    return {(*connected)->take_socket(), (*connected)->keys()};
  }
  auto const& failure = attempts.front()->failure();
  throw Error(
      attempts.front()->code(),
      fmt::format("{}: {}", to_string(endpoints.front()),
                  failure.empty() ? "no answer within " + format_duration(deadline.length()) : failure));
}

std::pair<Socket, SessionKeys> connect_to_leader(asio::io_context& io, int rank,
                                                 const std::vector<Endpoint>& endpoints, const Key& key,
                                                 const Deadline& deadline,
                                                 const std::function<void()>& before_retry) {
  std::string last_error;
  bool const local = std::all_of(endpoints.begin(), endpoints.end(), is_local);
  milliseconds backoff = initial_backoff;
  do {
    try {
      return connect_once(io, rank, endpoints, key,
                          Deadline(std::min(attempt_timeout, deadline.remaining())));
    } catch (const Error& error) {
      log::debug("control: {}", error.what());
      // An attempt that the deadline cut short tells less than the one before it.
      if (last_error.empty() || !deadline.passed()) last_error = error.what();
    }
    if (before_retry) before_retry();
    std::this_thread::sleep_for(std::min(backoff, deadline.remaining()));
    backoff = std::min(backoff * 2, local ? max_local_backoff : max_backoff);
  } while (!deadline.passed());
  throw Error(ErrorCode::deadline,
              fmt::format("join: rank {} cannot reach its leader within {}; last tried {}", rank,
                          format_duration(deadline.length()), last_error));
}

}  // namespace muster::control
