// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "transport/endpoint.hpp"
#include "transport/handshake.hpp"
#include "transport/peer_process.hpp"

namespace muster::control {

/// One small message: a CBOR object.
using Message = nlohmann::json;

/// No frame is longer; a peer that announces one is cut off.
inline constexpr std::size_t max_frame_bytes = 4u << 20;
/// What may wait to be sent on one connection; a peer that takes nothing for so long is cut off.
inline constexpr std::size_t max_queue_bytes = 512u << 20;

/// A proven connection: length-limited frames, each sealed with ChaCha20-Poly1305 under the connection's keys
/// and its number in order. Every call and callback on the io_context's thread.
class SecureChannel : public std::enable_shared_from_this<SecureChannel> {
 public:
  using OnMessage = std::function<void(const Message&)>;
  /// `reason` is the system's text. Called once, not after close().
  using OnEnd = std::function<void(const std::string& reason)>;

  /// `own`: what the other side is told of this process's last call.
  SecureChannel(Socket socket, const SessionKeys& keys, std::shared_ptr<const FlightRecorder> own = nullptr);

  /// With `heartbeat_timeout`, both sides say something every quarter of it, and a side that hears nothing
  /// for so long ends the connection: the other process is stopped or its host is gone. 0: never.
  void start(OnMessage on_message, OnEnd on_end,
             std::chrono::milliseconds heartbeat_timeout = std::chrono::milliseconds{0});
  void send(const Message& message);
  /// Says at once what is otherwise said every quarter of the silence.
  void send_heartbeat() { send(peer_.beat()); }
  /// Ends the connection after what was sent; the callbacks are not called again.
  void close();
  /// Within OnEnd: how the process at the other end ended, as far as it can be known.
  DisconnectCause ending(const std::string& reason) const;

 private:
  using Bytes = std::vector<std::uint8_t>;

  void read_length();
  void read_body(std::uint32_t length);
  void open_frame();
  void write_next();
  void end(const std::string& reason);
  void shut();
  void look();

  Socket socket_;
  SessionKeys keys_;
  PeerProcess peer_;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::array<std::uint8_t, 4> length_{};
  Bytes body_;
  std::deque<Bytes> queue_;
  std::size_t queue_bytes_ = 0;
  bool closing_ = false;
  bool mute_ = false;    // the other side takes nothing any more
  bool silent_ = false;  // which is why the connection ends
  std::chrono::milliseconds heartbeat_timeout_{0};
  asio::steady_timer timer_;
  std::chrono::steady_clock::time_point heard_;
  std::chrono::steady_clock::time_point looked_;
  std::chrono::steady_clock::time_point next_beat_;
  OnMessage on_message_;
  OnEnd on_end_;
};

/// Turns on keep-alive and bounds how long unacknowledged data may wait, so that a link that went silent ends
/// the connection.
void set_liveness(Socket& socket);

}  // namespace muster::control
