// SPDX-License-Identifier: Apache-2.0
// A client's connection to a broken parameter server: the frames are what it receives after its requests for
// a task and for values.
#include "frames.hpp"
#include "parameter_server/server_link.hpp"
#include "parameter_server/values.hpp"
#include "transport/frame_body.hpp"

using namespace muster;
using namespace muster::parameter_server;

namespace {

/// A connection without a network.
class MemoryChannel : public control::Channel {
 public:
  void start(OnMessage on_message, OnDisconnect on_disconnect, std::chrono::milliseconds) override {
    on_message_ = std::move(on_message);
    on_disconnect_ = std::move(on_disconnect);
  }
  void send(const Message&) override {}
  void send_heartbeat() override {}
  void close() override { on_message_ = nullptr; }
  control::DisconnectCause disconnect_cause(const std::string&) const override { return {}; }

  /// As a SecureChannel: what the handler throws ends the connection. Returns whether it goes on.
  bool receive(std::span<const std::uint8_t> bytes) {
    try {
      on_message_(control::read_frame_body(bytes));
      return true;
    } catch (const std::exception& error) {
      on_disconnect_(error.what());
      return false;
    }
  }

 private:
  OnMessage on_message_;
  OnDisconnect on_disconnect_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto const channel = std::make_shared<MemoryChannel>();
  auto const link = std::make_shared<ServerLink>(channel);
  bool lost = false;
  int replies = 0;
  link->start([&](const std::string&) { lost = true; });
  std::vector<float> values(4);
  link->send(1, encode(Take{1, 0}), [&](const Reply&) { ++replies; });
  for (std::uint64_t id = 2; id <= 3; ++id) {
    link->send(id, encode(Read{id, 0, 0, 0, values.size(), id == 3}), [&, id](const Reply& reply) {
      ++replies;
      decode_values(reply.payload, id == 3, values);
    });
  }
  for (const auto& frame : fuzz::parse_frames(data, size))
    if (!channel->receive(frame.bytes)) break;
  if (replies > 3 || (link->is_idle() && replies != 3)) std::abort();
  link->close();
  return 0;
}
