// SPDX-License-Identifier: Apache-2.0
#include "parameter_server/server_link.hpp"

#include "muster/error.hpp"

namespace muster::parameter_server {
namespace {

// Enough to keep a connection busy, and no more memory than these need on the server.
constexpr std::size_t max_under_way = 32;

}  // namespace

void ServerLink::start(OnLost on_lost) {
  channel_->start([this, self = shared_from_this()](const Message& message) { on_message(message); },
                  [on_lost = std::move(on_lost)](const std::string& reason) { on_lost(reason); },
                  std::chrono::milliseconds{0});
}

void ServerLink::send(std::uint64_t id, Message message, OnReply on_reply) {
  on_reply_[id] = std::move(on_reply);
  queue_.emplace_back(id, std::move(message));
  send_next();
}

void ServerLink::send_next() {
  while (!queue_.empty() && under_way_ < max_under_way) {
    channel_->send(queue_.front().second);
    queue_.pop_front();
    ++under_way_;
  }
}

void ServerLink::on_message(const Message& message) {
  if (protocol::type_of(message) != Reply::type)
    throw Error(ErrorCode::system, "a parameter server sent something else than a reply");
  auto reply = protocol::decode<Reply>(message);
  auto const found = on_reply_.extract(reply.id);
  if (!found) throw Error(ErrorCode::system, "a parameter server sent a reply to no request");
  --under_way_;
  send_next();
  found.mapped()(std::move(reply));
}

void ServerLink::close() {
  channel_->send(encode(Leave{}));
  channel_->close();
}

}  // namespace muster::parameter_server
