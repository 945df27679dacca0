// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/key_server.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cbor.hpp"
#include "log.hpp"
#include "muster/error.hpp"

namespace muster::bootstrap {
namespace {

using nlohmann::json;
using Bytes = std::vector<std::uint8_t>;

using Magic = std::array<std::uint8_t, 8>;
constexpr Magic magic{'m', 'u', 's', 't', 'k', 'e', 'y', 1};
constexpr Magic declining{'m', 'u', 's', 't', 'n', 'o', 't', 1};
constexpr std::size_t header_bytes = magic.size() + 4;
constexpr std::size_t max_sealed_bytes = 8192;  // a credential of a few hundred bytes is longer by half
constexpr std::size_t strangers_kept = 256;
// munged answers with two threads of its own unless told otherwise (munged(8), --num-threads).
constexpr std::size_t seals_at_once = 4;

using Header = std::array<std::uint8_t, header_bytes>;

Bytes header_of(const Magic& word, std::size_t number) {
  Bytes header(word.begin(), word.end());
  for (int i = 0; i < 4; ++i) header.push_back(static_cast<std::uint8_t>(number >> (8 * i)));
  return header;
}

Bytes framed(const Bytes& sealed) {
  auto frame = header_of(magic, sealed.size());
  frame.insert(frame.end(), sealed.begin(), sealed.end());
  return frame;
}

bool begins_with(const Header& header, const Magic& word) {
  return std::equal(word.begin(), word.end(), header.begin());
}

std::size_t number_in(const Header& header) {
  std::size_t number = 0;
  for (int i = 3; i >= 0; --i) number = (number << 8) | header[magic.size() + static_cast<std::size_t>(i)];
  return number;
}

struct Frame {
  Header header{};
  Bytes body;
};

// What follows the header, then calls `done` with the reason why not, empty when it worked.
template <typename Done>
void read_body(control::Socket& socket, const std::shared_ptr<Frame>& frame, Done done) {
  auto const length = begins_with(frame->header, magic) ? number_in(frame->header) : 0;
  if (length == 0 || length > max_sealed_bytes) return done("no frame of Muster's");
  frame->body.resize(length);
  asio::async_read(socket, asio::buffer(frame->body),
                   [frame, done](const asio::error_code& failed, std::size_t) {
                     done(failed ? failed.message() : std::string());
                   });
}

}  // namespace

const char* words_of(AuthFailure obstacle) {
  return obstacle == AuthFailure::no_library ? "its host has no MUNGE library" : "no munged answers on its host";
}

struct KeyServer::Request {
  explicit Request(std::shared_ptr<control::Acceptor::PendingConnection> from) : visitor(std::move(from)) {}
  std::shared_ptr<control::Acceptor::PendingConnection> visitor;
  std::shared_ptr<Frame> frame = std::make_shared<Frame>();
  Bytes reply;
};

KeyServer::KeyServer(std::unique_ptr<control::Acceptor> door, CredentialCodec& seal, std::string job, int ranks,
                 const JobCredentials& ticket, OnRefusal on_refusal, OnDecline on_decline)
    : door_(std::move(door)),
      seal_(seal),
      job_(std::move(job)),
      ranks_(ranks),
      ticket_(ticket),
      on_refusal_(std::move(on_refusal)),
      on_decline_(std::move(on_decline)),
      sealers_(seals_at_once) {
  door_->open(static_cast<std::size_t>(ranks) + strangers_kept,
              [this](const std::shared_ptr<control::Acceptor::PendingConnection>& visitor) {
                read(std::make_shared<Request>(visitor));
              });
}

// What waits for its turn finds nobody to answer any more: only what munged has been asked is waited for.
KeyServer::~KeyServer() {
  sealers_.stop();
  sealers_.join();
}

void KeyServer::read(const std::shared_ptr<Request>& request) {
  auto& socket = request->visitor->socket;
  asio::async_read(socket, asio::buffer(request->frame->header),
                   [this, request, &socket](const asio::error_code& error, std::size_t) {
                     if (request->visitor->gone) return;
                     if (error) return door_->drop(request->visitor);
                     if (begins_with(request->frame->header, declining)) return read_decline(request);
                     read_body(socket, request->frame, [this, request](const std::string& why) {
                       if (request->visitor->gone) return;
                       if (!why.empty()) return door_->drop(request->visitor);
                       answer(request);
                     });
                   });
}

// Nothing is proven: it is only passed on when it can be true, and stays a word about the rank.
void KeyServer::read_decline(const std::shared_ptr<Request>& request) {
  auto const rank = number_in(request->frame->header);
  request->frame->body.assign(1, 0);
  asio::async_read(
      request->visitor->socket, asio::buffer(request->frame->body),
      [this, request, rank](const asio::error_code& error, std::size_t) {
        if (request->visitor->gone) return;
        door_->drop(request->visitor);
        auto const obstacle = static_cast<AuthFailure>(request->frame->body[0]);
        bool const known = obstacle == AuthFailure::no_library || obstacle == AuthFailure::no_munged;
        if (!error && known && rank > 0 && rank < static_cast<std::size_t>(ranks_) && on_decline_)
          on_decline_(static_cast<int>(rank), obstacle);
      });
}

void KeyServer::refuse(const std::shared_ptr<Request>& request, const std::string& why) {
  // What a stranger sent, or a rank of ours whose credential does not fit: it sees that it is cut off.
  log::debug("join: a request for the key was refused: {}", why);
  if (on_refusal_) on_refusal_(why);
  door_->drop(request->visitor);
}

void KeyServer::answer(const std::shared_ptr<Request>& request) {
  asio::post(sealers_, [this, request, io = request->visitor->socket.get_executor()] {
    std::string why;
    try {
      request->reply = reply_to(request->frame->body);
    } catch (const std::exception& error) {
      why = error.what();
    }
    asio::post(io, [this, request, why] {
      if (request->visitor->gone) return;
      if (!why.empty()) return refuse(request, why);
      asio::async_write(request->visitor->socket, asio::buffer(request->reply),
                        [this, request](const asio::error_code&, std::size_t) {
                          if (!request->visitor->gone) door_->drop(request->visitor);
                        });
    });
  });
}

// On one of the sealers' threads.
std::vector<std::uint8_t> KeyServer::reply_to(const std::vector<std::uint8_t>& sealed) const {
  json const wish = read_cbor(seal_.open(sealed), "a request for the key");
  auto const rank = wish.at("rank").get<int>();
  if (wish.at("job").get<std::string>() != job_) throw Error(ErrorCode::system, "it belongs to another job");
  if (rank < 1 || rank >= ranks_) throw Error(ErrorCode::system, fmt::format("there is no rank {}", rank));
  json const ticket{{"job", job_},
                    {"rank", rank},
                    {"nonce", json::binary(wish.at("nonce").get_binary())},
                    {"key", json::binary(Bytes(ticket_.key.begin(), ticket_.key.end()))},
                    {"port", ticket_.port}};
  return framed(seal_.close(write_cbor(ticket)));
}

namespace {

// Runs what was begun on `socket`, until the deadline at the latest, and says what `why` was by then: the
// handlers that closing cancels still write there.
std::string run_to_end(asio::io_context& io, control::Socket& socket, const std::string& why,
                       const Deadline& deadline) {
  io.restart();
  io.run_until(deadline.when());
  auto said = why;
  asio::error_code ignored;
  socket.close(ignored);
  io.restart();
  io.run();
  return said;
}

// What rank 0 answers to the wish of `rank` that bore `nonce`.
JobCredentials ticket_in(const json& answer, const std::string& job, int rank, const Bytes& nonce) {
  if (answer.at("job").get<std::string>() != job || answer.at("rank").get<int>() != rank ||
      Bytes(answer.at("nonce").get_binary()) != nonce) {
    throw Error(ErrorCode::system, "the answer is for somebody else");
  }
  JobCredentials ticket;
  auto const key = answer.at("key").get_binary();
  if (key.size() != ticket.key.size()) throw Error(ErrorCode::system, "the answer has no key");
  std::copy(key.begin(), key.end(), ticket.key.begin());
  ticket.port = answer.at("port").get<std::uint16_t>();
  return ticket;
}

}  // namespace

void report_auth_failure(asio::io_context& io, const control::Endpoint& desk, int rank, AuthFailure obstacle,
                const Deadline& deadline) {
  auto word = header_of(declining, static_cast<std::size_t>(rank));
  word.push_back(static_cast<std::uint8_t>(obstacle));
  control::Socket socket(io);
  std::string why = "no answer within " + text_of(deadline.length());
  std::array<std::uint8_t, 1> end{};
  socket.async_connect(desk, [&](const asio::error_code& error) {
    if (error) return void(why = error.message());
    asio::async_write(socket, asio::buffer(word), [&](const asio::error_code& failed, std::size_t) {
      why = failed ? failed.message() : "";
      // Until it was read: the other side closes.
      asio::async_read(socket, asio::buffer(end), [](const asio::error_code&, std::size_t) {});
    });
  });
  auto const said = run_to_end(io, socket, why, deadline);
  if (!said.empty()) throw Error(ErrorCode::system, said);
}

JobCredentials request_job_key(asio::io_context& io, const control::Endpoint& desk, CredentialCodec& seal, const std::string& job,
                      int rank, const Deadline& deadline) {
  auto const nonce = control::random_nonce();
  Bytes const own(nonce.begin(), nonce.end());
  auto const wish = write_cbor(json{{"job", job}, {"rank", rank}, {"nonce", json::binary(own)}});
  Bytes request;
  control::Socket socket(io);
  auto const frame = std::make_shared<Frame>();
  std::string why = "no answer within " + text_of(deadline.length());
  bool came = false;
  socket.async_connect(desk, [&](const asio::error_code& error) {
    if (error) return void(why = error.message());
    if (!control::is_own_user(socket)) return void(why = "it is another user's");
    // Not before: until rank 0 listens, every rank comes many times, and munged has other work.
    try {
      request = framed(seal.close(wish));
    } catch (const std::exception& unsealed) {
      return void(why = unsealed.what());
    }
    asio::async_write(socket, asio::buffer(request), [&](const asio::error_code& failed, std::size_t) {
      if (failed) return void(why = failed.message());
      asio::async_read(socket, asio::buffer(frame->header), [&](const asio::error_code& cut, std::size_t) {
        if (cut) return void(why = cut.message());
        read_body(socket, frame, [&](const std::string& reason) {
          came = reason.empty();
          if (!came) why = reason;
        });
      });
    });
  });
  auto const said = run_to_end(io, socket, why, deadline);
  if (!came) throw Error(ErrorCode::system, said);
  return ticket_in(read_cbor(seal.open(frame->body), "rank 0's answer"), job, rank, own);
}

}  // namespace muster::bootstrap
