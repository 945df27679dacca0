// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/key_desk.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cbor.hpp"
#include "log.hpp"
#include "muster/error.hpp"

namespace muster::bootstrap {
namespace {

using nlohmann::json;
using Bytes = std::vector<std::uint8_t>;

constexpr std::array<std::uint8_t, 8> magic{'m', 'u', 's', 't', 'k', 'e', 'y', 1};
constexpr std::size_t header_bytes = magic.size() + 4;
constexpr std::size_t max_sealed_bytes = 8192;  // a credential of a few hundred bytes is longer by half
constexpr std::size_t strangers_kept = 256;

using Header = std::array<std::uint8_t, header_bytes>;

Bytes framed(const Bytes& sealed) {
  Bytes frame(magic.begin(), magic.end());
  for (int i = 0; i < 4; ++i) frame.push_back(static_cast<std::uint8_t>(sealed.size() >> (8 * i)));
  frame.insert(frame.end(), sealed.begin(), sealed.end());
  return frame;
}

// 0 for anything that cannot be.
std::size_t length_in(const Header& header) {
  if (!std::equal(magic.begin(), magic.end(), header.begin())) return 0;
  std::size_t length = 0;
  for (int i = 3; i >= 0; --i) length = (length << 8) | header[magic.size() + static_cast<std::size_t>(i)];
  return length <= max_sealed_bytes ? length : 0;
}

// Reads one frame into `frame.body`, then calls `done` with the reason why not, empty when it worked.
struct Frame {
  Header header{};
  Bytes body;
};

template <typename Done>
void read_frame(control::Socket& socket, const std::shared_ptr<Frame>& frame, Done done) {
  asio::async_read(socket, asio::buffer(frame->header),
                   [&socket, frame, done](const asio::error_code& error, std::size_t) {
                     if (error) return done(error.message());
                     auto const length = length_in(frame->header);
                     if (length == 0) return done("no frame of Muster's");
                     frame->body.resize(length);
                     asio::async_read(socket, asio::buffer(frame->body),
                                      [frame, done](const asio::error_code& failed, std::size_t) {
                                        done(failed ? failed.message() : std::string());
                                      });
                   });
}

}  // namespace

struct KeyDesk::Request {
  explicit Request(std::shared_ptr<control::Door::Visitor> from) : visitor(std::move(from)) {}
  std::shared_ptr<control::Door::Visitor> visitor;
  std::shared_ptr<Frame> frame = std::make_shared<Frame>();
  Bytes reply;
};

KeyDesk::KeyDesk(std::unique_ptr<control::Door> door, Seal& seal, std::string job, int ranks,
                 const Ticket& ticket, OnRefusal on_refusal)
    : door_(std::move(door)),
      seal_(seal),
      job_(std::move(job)),
      ranks_(ranks),
      ticket_(ticket),
      on_refusal_(std::move(on_refusal)) {
  door_->open(static_cast<std::size_t>(ranks) + strangers_kept,
              [this](const std::shared_ptr<control::Door::Visitor>& visitor) {
                read(std::make_shared<Request>(visitor));
              });
}

void KeyDesk::read(const std::shared_ptr<Request>& request) {
  read_frame(request->visitor->socket, request->frame, [this, request](const std::string& why) {
    if (request->visitor->gone) return;
    if (!why.empty()) return door_->drop(request->visitor);
    try {
      answer(request);
    } catch (const std::exception& error) {
      // What a stranger sent, or a rank of ours whose credential does not fit: it sees that it is cut off.
      log::debug("join: a request for the key was refused: {}", error.what());
      if (on_refusal_) on_refusal_(error.what());
      door_->drop(request->visitor);
    }
  });
}

void KeyDesk::answer(const std::shared_ptr<Request>& request) {
  json const wish = read_cbor(seal_.open(request->frame->body), "a request for the key");
  auto const rank = wish.at("rank").get<int>();
  if (wish.at("job").get<std::string>() != job_) throw Error(Fault::system, "it belongs to another job");
  if (rank < 1 || rank >= ranks_) throw Error(Fault::system, fmt::format("there is no rank {}", rank));
  json const ticket{{"job", job_},
                    {"rank", rank},
                    {"nonce", json::binary(wish.at("nonce").get_binary())},
                    {"key", json::binary(Bytes(ticket_.key.begin(), ticket_.key.end()))},
                    {"port", ticket_.port}};
  request->reply = framed(seal_.close(write_cbor(ticket)));
  asio::async_write(request->visitor->socket, asio::buffer(request->reply),
                    [this, request](const asio::error_code&, std::size_t) {
                      if (!request->visitor->gone) door_->drop(request->visitor);
                    });
}

Ticket ask_for_ticket(asio::io_context& io, const control::Endpoint& desk, Seal& seal, const std::string& job,
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
      read_frame(socket, frame, [&](const std::string& reason) {
        came = reason.empty();
        if (!came) why = reason;
      });
    });
  });
  io.restart();
  io.run_until(deadline.when());
  auto const said = why;
  asio::error_code ignored;
  socket.close(ignored);
  io.restart();
  io.run();  // lets the cancelled handlers go
  if (!came) throw Error(Fault::system, said);
  json const ticket = read_cbor(seal.open(frame->body), "rank 0's answer");
  if (ticket.at("job").get<std::string>() != job || ticket.at("rank").get<int>() != rank ||
      Bytes(ticket.at("nonce").get_binary()) != own) {
    throw Error(Fault::system, "the answer is for somebody else");
  }
  Ticket given;
  auto const key = ticket.at("key").get_binary();
  if (key.size() != given.key.size()) throw Error(Fault::system, "the answer has no key");
  std::copy(key.begin(), key.end(), given.key.begin());
  given.port = ticket.at("port").get<std::uint16_t>();
  return given;
}

}  // namespace muster::bootstrap
