// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/key_server.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>

#include "cbor.hpp"
#include "log.hpp"
#include "muster/error.hpp"
#include "rendezvous/credential_frame.hpp"

namespace muster::bootstrap {
namespace {

using nlohmann::json;
using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t max_credential_bytes = 8192;  // MUNGE adds half to the few hundred bytes of a payload
constexpr std::size_t extra_connections = 256;
// munged itself has two threads by default (munged(8), --num-threads).
constexpr std::size_t credential_thread_count = 4;

// True when the other side has closed the connection. It sends nothing after its request.
bool has_gone(control::Socket& socket) {
  char byte = 0;
  return ::recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace

struct KeyServer::Request {
  explicit Request(std::shared_ptr<control::Acceptor::PendingConnection> from)
      : connection(std::move(from)) {}
  std::shared_ptr<control::Acceptor::PendingConnection> connection;
  std::shared_ptr<CredentialFrame> frame = std::make_shared<CredentialFrame>();
  Bytes reply;
};

KeyServer::KeyServer(std::unique_ptr<control::Acceptor> acceptor, CredentialCodec& codec, std::string job,
                     int ranks, const JobCredentials& credentials, OnRefusal on_refusal)
    : acceptor_(std::move(acceptor)),
      codec_(codec),
      job_(std::move(job)),
      ranks_(ranks),
      credentials_(credentials),
      on_refusal_(std::move(on_refusal)),
      max_waiting_(2 * (static_cast<std::size_t>(ranks) + extra_connections)),
      credential_threads_(credential_thread_count) {
  acceptor_->open(static_cast<std::size_t>(ranks) + extra_connections,
                  [this](const std::shared_ptr<control::Acceptor::PendingConnection>& connection) {
                    read(std::make_shared<Request>(connection));
                  });
}

// Waits only for calls into munged.
KeyServer::~KeyServer() {
  credential_threads_.stop();
  credential_threads_.join();
}

void KeyServer::read(const std::shared_ptr<Request>& request) {
  read_frame(request->connection->socket, request->frame, max_credential_bytes,
             [this, request](const std::string& error) {
               if (request->connection->released) return;
               if (!error.empty()) return acceptor_->drop(request->connection);
               answer(request);
             });
}

void KeyServer::refuse(const std::shared_ptr<Request>& request, const std::string& reason) {
  // The sender is a stranger, or a rank of ours with a wrong credential. It sees that the connection closes.
  log::debug("join: a request for the key was refused: {}", reason);
  if (on_refusal_) on_refusal_(reason);
  acceptor_->drop(request->connection);
}

void KeyServer::answer(const std::shared_ptr<Request>& request) {
  // The table of connections evicts random ones, whose requests stay here until they are removed together.
  if (waiting_.size() >= max_waiting_)
    std::erase_if(waiting_, [](const auto& other) { return other->connection->released; });
  waiting_.push_back(request);
  decode_next();
}

void KeyServer::decode_next() {
  while (*decoding_ < credential_thread_count && !waiting_.empty()) {
    auto const request = std::move(waiting_.front());
    waiting_.pop_front();
    if (request->connection->released) continue;
    if (has_gone(request->connection->socket)) {
      acceptor_->drop(request->connection);
      continue;
    }
    ++*decoding_;
    decode(request);
  }
}

void KeyServer::decode(const std::shared_ptr<Request>& request) {
  asio::post(credential_threads_, [this, request, io = request->connection->socket.get_executor()] {
    std::string reason;
    try {
      request->reply = make_reply(request->frame->credential);
    } catch (const std::exception& error) {
      reason = error.what();
    }
    asio::post(io, [this, request, reason, alive = std::weak_ptr(decoding_)] {
      auto const decoding = alive.lock();
      if (!decoding) return;  // the server was destroyed meanwhile
      --*decoding;
      decode_next();
      if (request->connection->released) return;
      if (!reason.empty()) return refuse(request, reason);
      asio::async_write(request->connection->socket, asio::buffer(request->reply),
                        [this, request](const asio::error_code&, std::size_t) {
                          if (!request->connection->released) acceptor_->drop(request->connection);
                        });
    });
  });
}

// Runs on one of credential_threads_.
std::vector<std::uint8_t> KeyServer::make_reply(const std::vector<std::uint8_t>& credential) const {
  json const plain_request = read_cbor(codec_.decode(credential), "a request for the key");
  auto const rank = plain_request.at("rank").get<int>();
  if (plain_request.at("job").get<std::string>() != job_)
    throw Error(ErrorCode::system, "it belongs to another job");
  if (rank < 1 || rank >= ranks_) throw Error(ErrorCode::system, fmt::format("there is no rank {}", rank));
  json const credentials{{"job", job_},
                         {"rank", rank},
                         {"nonce", json::binary(plain_request.at("nonce").get_binary())},
                         {"key", json::binary(Bytes(credentials_.key.begin(), credentials_.key.end()))},
                         {"port", credentials_.port}};
  return make_frame(codec_.encode(write_cbor(credentials)));
}

namespace {

// Reads rank 0's answer to the request of `rank` with `nonce`.
JobCredentials parse_credentials(const json& answer, const std::string& job, int rank, const Bytes& nonce) {
  if (answer.at("job").get<std::string>() != job || answer.at("rank").get<int>() != rank ||
      Bytes(answer.at("nonce").get_binary()) != nonce) {
    throw Error(ErrorCode::system, "the answer is for another request");
  }
  JobCredentials credentials;
  auto const key = answer.at("key").get_binary();
  if (key.size() != credentials.key.size()) throw Error(ErrorCode::system, "the answer has no key");
  std::copy(key.begin(), key.end(), credentials.key.begin());
  credentials.port = answer.at("port").get<std::uint16_t>();
  return credentials;
}

}  // namespace

namespace {

// A request at one endpoint.
class KeyRequest : public std::enable_shared_from_this<KeyRequest> {
 public:
  KeyRequest(asio::io_context& io, CredentialCodec& codec, std::string job, int rank)
      : socket_(io), codec_(codec), job_(std::move(job)), rank_(rank) {
    auto const nonce = control::random_nonce();
    nonce_.assign(nonce.begin(), nonce.end());
  }

  void start(const control::Endpoint& endpoint) {
    socket_.async_connect(endpoint, [self = shared_from_this()](const asio::error_code& error) {
      if (error) return self->fail(error.message());
      ++self->stage_;
      if (!control::is_own_user(self->socket_)) return self->fail("it is another user's");
      ++self->stage_;
      self->send();
    });
  }
  void close() {
    asio::error_code ignored;
    socket_.close(ignored);
  }

  const std::optional<JobCredentials>& credentials() const { return credentials_; }
  // Empty while it is not known.
  const std::string& failure() const { return failure_; }
  // How far it came: 1 when a process accepted the connection, 2 when that one may be rank 0.
  int stage() const { return stage_; }

 private:
  // Only now: until rank 0 listens, every rank retries many times, and munged serves other programs too.
  void send() try {
    json const request{{"job", job_}, {"rank", rank_}, {"nonce", json::binary(nonce_)}};
    request_ = make_frame(codec_.encode(write_cbor(request)));
    asio::async_write(socket_, asio::buffer(request_),
                      [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                        if (error) return self->fail(error.message());
                        self->receive();
                      });
  } catch (const std::exception& error) {
    fail(error.what());
  }
  void receive() {
    read_frame(socket_, frame_, max_credential_bytes, [self = shared_from_this()](const std::string& error) {
      if (!error.empty()) return self->fail(error);
      self->parse();
    });
  }
  void parse() try {
    auto const answer = read_cbor(codec_.decode(frame_->credential), "rank 0's answer");
    credentials_ = parse_credentials(answer, job_, rank_, nonce_);
  } catch (const std::exception& error) {
    fail(error.what());
  }
  void fail(const std::string& why) {
    if (socket_.is_open()) failure_ = why;  // else close() has cancelled it
    close();
  }

  control::Socket socket_;
  CredentialCodec& codec_;
  std::string job_;
  int rank_;
  int stage_ = 0;
  Bytes nonce_, request_;
  std::shared_ptr<CredentialFrame> frame_ = std::make_shared<CredentialFrame>();
  std::optional<JobCredentials> credentials_;
  std::string failure_;
};

}  // namespace

std::pair<JobCredentials, control::Endpoint> request_job_key(asio::io_context& io,
                                                             const std::vector<control::Endpoint>& endpoints,
                                                             CredentialCodec& codec, const std::string& job,
                                                             int rank, const Deadline& deadline) {
  if (endpoints.empty()) throw Error(ErrorCode::system, "it gave no address");
  std::vector<std::shared_ptr<KeyRequest>> requests;
  for (const auto& endpoint : endpoints) {
    requests.push_back(std::make_shared<KeyRequest>(io, codec, job, rank));
    requests.back()->start(endpoint);
  }
  auto const find_answered = [&] {
    return std::find_if(requests.begin(), requests.end(),
                        [](const auto& request) { return request->credentials().has_value(); });
  };
  io.restart();
  while (find_answered() == requests.end() && !io.stopped() && !deadline.passed())
    io.run_one_until(deadline.when());
  auto const answered = find_answered();
  for (auto& request : requests) request->close();
  io.restart();
  io.run();  // runs the cancelled handlers
  if (answered != requests.end())
    return {*(*answered)->credentials(), endpoints[static_cast<std::size_t>(answered - requests.begin())]};
  auto const furthest =
      std::max_element(requests.begin(), requests.end(),
                       [](const auto& one, const auto& other) { return one->stage() < other->stage(); });
  auto const& failure = (*furthest)->failure();
  throw Error(
      ErrorCode::system,
      fmt::format("{}: {}",
                  control::to_string(endpoints[static_cast<std::size_t>(furthest - requests.begin())]),
                  failure.empty() ? "no answer within " + format_duration(deadline.length()) : failure));
}

}  // namespace muster::bootstrap
