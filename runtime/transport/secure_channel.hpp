// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/channel.hpp"
#include "transport/endpoint.hpp"
#include "transport/handshake.hpp"
#include "transport/peer_process.hpp"

namespace muster::control {

/// A peer that announces a longer frame is disconnected.
inline constexpr std::size_t max_frame_bytes = 4u << 20;
/// Limit of queued frames on one connection. A peer that does not read for so long is disconnected.
inline constexpr std::size_t max_queue_bytes = 512u << 20;

/// An authenticated connection: length-limited frames, each encrypted with ChaCha20-Poly1305 under the
/// connection's keys, with the frame's number as nonce. Every call and callback on the io_context's thread.
class SecureChannel : public Channel, public std::enable_shared_from_this<SecureChannel> {
 public:
  /// `recorder`: this process's last call, which the other side can read.
  SecureChannel(Socket socket, const SessionKeys& keys,
                std::shared_ptr<const FlightRecorder> recorder = nullptr);

  void start(OnMessage on_message, OnDisconnect on_disconnect,
             std::chrono::milliseconds heartbeat_timeout = std::chrono::milliseconds{0}) override;
  void send(const Message& message) override;
  void send_heartbeat() override { send(peer_.heartbeat_message()); }
  void close() override;
  DisconnectCause disconnect_cause(const std::string& reason) const override;

 private:
  using Bytes = std::vector<std::uint8_t>;

  void read_length();
  void read_body(std::uint32_t length);
  void decrypt_frame();
  void write_next();
  void disconnect(const std::string& reason);
  void disconnect(const asio::error_code& error);
  void finish();
  void linger();
  void close_socket();
  void check_liveness();

  Socket socket_;
  SessionKeys keys_;
  PeerProcess peer_;
  std::uint64_t sent_frames_ = 0;
  std::uint64_t received_frames_ = 0;
  std::array<std::uint8_t, 4> length_{};
  Bytes body_;
  std::deque<Bytes> queue_;
  std::size_t queue_bytes_ = 0;
  bool closing_ = false;
  bool write_blocked_ = false;  // the other side no longer reads
  bool silent_ = false;         // a timeout ended the connection
  std::chrono::milliseconds heartbeat_timeout_{0};
  asio::steady_timer timer_;
  std::chrono::steady_clock::time_point last_received_;
  std::chrono::steady_clock::time_point last_check_;
  std::chrono::steady_clock::time_point next_heartbeat_;
  OnMessage on_message_;
  OnDisconnect on_disconnect_;
};

}  // namespace muster::control
