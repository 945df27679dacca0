// SPDX-License-Identifier: Apache-2.0
#include "transport/secure_channel.hpp"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <climits>
#include <cstdint>

#include "deadline.hpp"
#include "muster/error.hpp"
#include "transport/close_in_children.hpp"
#include "transport/frame_body.hpp"

namespace muster::control {
namespace {

using FrameNonce = std::array<std::uint8_t, crypto_aead_chacha20poly1305_IETF_NPUBBYTES>;
constexpr std::size_t tag_bytes = crypto_aead_chacha20poly1305_IETF_ABYTES;
static_assert(key_bytes == crypto_aead_chacha20poly1305_IETF_KEYBYTES);

// Each key encrypts one direction of one connection, so that a frame number never repeats under a key.
FrameNonce frame_nonce(std::uint64_t number) {
  FrameNonce nonce{};
  for (std::size_t i = 0; i < 8; ++i) nonce[i] = static_cast<std::uint8_t>(number >> (8 * i));
  return nonce;
}

// How long close() waits for the other side, with heartbeats, and again while that has not got all messages.
// A program may close its connections before it prints the job's error, and the others end half a second
// after it.
constexpr std::chrono::milliseconds linger_time{250};

// Without heartbeats, a link that carries nothing for so long is dead.
constexpr std::chrono::milliseconds dead_link_timeout{10'000};

// TCP waits twice as long after each loss in sequence, up to two minutes: on a lossy network a few losses
// would look like a dead link. Linux 6.15 and newer can limit that wait; the kernel's least limit is 1 s.
#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44
#endif
constexpr int longest_retransmit_ms = 1000;

// Limits how long data may stay unacknowledged, so that a dead link closes the connection.
void set_tcp_timeout(Socket& socket, std::chrono::milliseconds timeout) {
  asio::error_code ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  auto const set = [&](int option, auto value) {
    auto const number = static_cast<int>(std::min<std::int64_t>(value, INT_MAX));
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &number, sizeof number);
  };
  auto const seconds = std::chrono::ceil<std::chrono::seconds>(timeout).count();
  set(TCP_KEEPIDLE, (seconds + 1) / 2);
  set(TCP_KEEPINTVL, (seconds + 5) / 6);
  set(TCP_KEEPCNT, 3);
  set(TCP_USER_TIMEOUT, timeout.count());
  set(TCP_RTO_MAX_MS, longest_retransmit_ms);
  // Older kernels can only double the wait later: after six losses in sequence.
  set(TCP_THIN_LINEAR_TIMEOUTS, 1);
}

}  // namespace

SecureChannel::SecureChannel(Socket socket, const SessionKeys& keys,
                             std::shared_ptr<const FlightRecorder> recorder)
    : socket_(std::move(socket)),
      keys_(keys),
      peer_(socket_, std::move(recorder)),
      timer_(socket_.get_executor()) {
  close_in_children(socket_.native_handle());
}

void SecureChannel::start(OnMessage on_message, OnDisconnect on_disconnect,
                          std::chrono::milliseconds heartbeat_timeout) {
  on_message_ = std::move(on_message);
  on_disconnect_ = std::move(on_disconnect);
  heartbeat_timeout_ = heartbeat_timeout;
  // Heartbeats notice a dead link first: only they know that it is no proof of the other process's end.
  set_tcp_timeout(socket_, heartbeat_timeout_.count() > 0 ? 2 * heartbeat_timeout_ : dead_link_timeout);
  last_received_ = last_check_ = next_heartbeat_ = std::chrono::steady_clock::now();
  if (auto const identity = peer_.identity_message(); !identity.is_null()) send(identity);
  if (heartbeat_timeout_.count() > 0) check_liveness();
  read_length();
}

// Runs every quarter of the heartbeat timeout, to send a heartbeat, and when the other side's timeout
// expires.
void SecureChannel::check_liveness() {
  auto const now = std::chrono::steady_clock::now();
  auto const interval = heartbeat_timeout_ / 4;
  // This process itself was stopped, perhaps with the whole job: messages that came meanwhile are still
  // unread.
  if (now - last_check_ > 2 * interval) last_received_ = now;
  last_check_ = now;
  if (now - last_received_ > heartbeat_timeout_) {
    silent_ = true;
    return disconnect("silent for " + format_duration(heartbeat_timeout_));
  }
  if (now >= next_heartbeat_) {
    next_heartbeat_ = now + interval;
    send(peer_.heartbeat_message());
    if (closing_) return;
  }
  timer_.expires_at(
      std::min(next_heartbeat_, last_received_ + heartbeat_timeout_ + std::chrono::milliseconds{1}));
  timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error && !self->closing_) self->check_liveness();
  });
}

void SecureChannel::read_length() {
  asio::async_read(socket_, asio::buffer(length_),
                   [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                     if (error) return self->disconnect(error);
                     std::uint32_t length = 0;
                     for (int i = 3; i >= 0; --i)
                       length = (length << 8) | self->length_[static_cast<std::size_t>(i)];
                     if (length < tag_bytes || length > max_frame_bytes)
                       return self->disconnect("a frame has an invalid length");
                     self->read_body(length);
                   });
}

void SecureChannel::read_body(std::uint32_t length) {
  body_.resize(length);
  // Each part is a sign of life: a long frame takes long on a slow network.
  auto const until_all = [this](const asio::error_code& error, std::size_t received) {
    if (received > 0) last_received_ = std::chrono::steady_clock::now();
    return asio::transfer_all()(error, received);
  };
  asio::async_read(socket_, asio::buffer(body_), until_all,
                   [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                     if (error) return self->disconnect(error);
                     self->decrypt_frame();
                   });
}

void SecureChannel::decrypt_frame() {
  auto const nonce = frame_nonce(received_frames_++);
  Bytes plain(body_.size() - tag_bytes);
  unsigned long long length = 0;
  if (crypto_aead_chacha20poly1305_ietf_decrypt(plain.data(), &length, nullptr, body_.data(), body_.size(),
                                                length_.data(), length_.size(), nonce.data(),
                                                keys_.receive.data()) != 0) {
    return disconnect("a frame failed authentication");
  }
  auto const self = shared_from_this();
  try {
    Message const message = read_frame_body(plain);
    last_received_ = std::chrono::steady_clock::now();
    auto const handler = on_message_;  // the handler may close this channel
    if (!peer_.handle_message(message) && handler) handler(message);
  } catch (const std::exception& error) {
    return disconnect(error.what());
  }
  read_length();  // while it lingers, too
}

void SecureChannel::send(const Message& message) {
  if (closing_ || write_blocked_) return;
  Bytes const plain = write_frame_body(message);
  if (plain.size() + tag_bytes > max_frame_bytes)
    return disconnect("a control message exceeds the length limit");
  auto const length = static_cast<std::uint32_t>(plain.size() + tag_bytes);
  Bytes frame(4 + length);
  for (std::size_t i = 0; i < 4; ++i) frame[i] = static_cast<std::uint8_t>(length >> (8 * i));
  auto const nonce = frame_nonce(sent_frames_++);
  unsigned long long written = 0;
  crypto_aead_chacha20poly1305_ietf_encrypt(frame.data() + 4, &written, plain.data(), plain.size(),
                                            frame.data(), 4, nullptr, nonce.data(), keys_.send.data());
  queue_bytes_ += frame.size();
  if (queue_bytes_ > max_queue_bytes) {
    write_blocked_ = true;
    // Posted, because the caller may be iterating over its channels.
    return asio::post(socket_.get_executor(), [self = shared_from_this()] {
      self->disconnect("it does not read what is sent to it");
    });
  }
  queue_.push_back(std::move(frame));
  if (queue_.size() == 1) write_next();
}

void SecureChannel::write_next() {
  asio::async_write(socket_, asio::buffer(queue_.front()),
                    [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                      if (error) {
                        // The other side's last message may still be unread, for example why it ended.
                        // Reading reports the disconnect, too.
                        self->write_blocked_ = true;
                        self->queue_.clear();
                        if (self->closing_) self->close_socket();
                        return;
                      }
                      self->queue_bytes_ -= self->queue_.front().size();
                      self->queue_.pop_front();
                      if (!self->queue_.empty()) return self->write_next();
                      if (self->closing_) self->finish();
                    });
}

void SecureChannel::close() {
  if (closing_) return;
  closing_ = true;
  timer_.cancel();
  on_message_ = nullptr;
  on_disconnect_ = nullptr;
  if (queue_.empty()) finish();
}

// A socket that is closed while the other side still sends resets the connection, and what was lost on the
// way is not sent again. With heartbeats the other side does send, so this side reads on until the other one
// closes.
void SecureChannel::finish() {
  if (heartbeat_timeout_.count() == 0) return close_socket();
  asio::error_code error;
  socket_.shutdown(asio::socket_base::shutdown_send, error);
  if (error) return close_socket();
  linger();
}

void SecureChannel::linger() {
  timer_.expires_after(linger_time);
  timer_.async_wait([self = shared_from_this()](const asio::error_code& cancelled) {
    if (cancelled) return;
    int unacknowledged = 0;
    ::ioctl(self->socket_.native_handle(), SIOCOUTQ, &unacknowledged);
    bool const is_silent = std::chrono::steady_clock::now() - self->last_received_ > self->heartbeat_timeout_;
    unacknowledged > 0 && !is_silent ? self->linger() : self->close_socket();
  });
}

DisconnectCause SecureChannel::disconnect_cause(const std::string& reason) const {
  if (silent_)
    return peer_.disconnect_cause(reason,
                                  heartbeat_timeout_.count() > 0 ? heartbeat_timeout_ : dead_link_timeout);
  auto const silence =
      std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - last_received_);
  // It missed a heartbeat before the connection was closed: another rank may have noticed the silence before.
  if (heartbeat_timeout_.count() > 0 && silence > heartbeat_timeout_ / 2) {
    auto cause =
        peer_.disconnect_cause(fmt::format("{}, silent for {} before", reason, format_duration(silence)), {});
    cause.silent = true;
    return cause;
  }
  return peer_.disconnect_cause(reason, {});
}

void SecureChannel::disconnect(const asio::error_code& error) {
  silent_ = silent_ || error == asio::error::timed_out;
  disconnect(error.message());
}

void SecureChannel::disconnect(const std::string& reason) {
  if (closing_) return close_socket();
  closing_ = true;
  close_socket();
  auto const on_disconnect = std::move(on_disconnect_);
  on_message_ = nullptr;
  on_disconnect_ = nullptr;
  if (on_disconnect) on_disconnect(reason);
}

void SecureChannel::close_socket() {
  timer_.cancel();
  asio::error_code ignored;
  socket_.shutdown(asio::socket_base::shutdown_both, ignored);
  socket_.close(ignored);
}

}  // namespace muster::control
