// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "parameter_server/messages.hpp"
#include "transport/channel.hpp"

namespace muster::parameter_server {

/// A client's connection to one server: requests in order, a few of them under way. Every call and callback
/// on the io_context's thread.
class ServerLink : public std::enable_shared_from_this<ServerLink> {
 public:
  using OnReply = std::function<void(Reply reply)>;
  using OnLost = std::function<void(const std::string& reason)>;

  explicit ServerLink(std::shared_ptr<control::Channel> channel) : channel_(std::move(channel)) {}

  void start(OnLost on_lost);
  /// `message` has the request's number.
  void send(std::uint64_t id, Message message, OnReply on_reply);
  /// Sends what is queued and a Leave.
  void close();
  bool is_idle() const { return on_reply_.empty(); }

 private:
  void on_message(const Message& message);
  void send_next();

  std::shared_ptr<control::Channel> channel_;
  std::deque<std::pair<std::uint64_t, Message>> queue_;
  std::size_t under_way_ = 0;
  std::map<std::uint64_t, OnReply> on_reply_;  // by number, of requests without a reply
};

}  // namespace muster::parameter_server
