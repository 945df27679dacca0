// SPDX-License-Identifier: Apache-2.0
#include "transport/secure_channel.hpp"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sodium.h>

#include <algorithm>

#include "cbor.hpp"
#include "deadline.hpp"
#include "muster/error.hpp"

namespace muster::control {
namespace {

using FrameNonce = std::array<std::uint8_t, crypto_aead_chacha20poly1305_IETF_NPUBBYTES>;
constexpr std::size_t seal_bytes = crypto_aead_chacha20poly1305_IETF_ABYTES;
static_assert(key_bytes == crypto_aead_chacha20poly1305_IETF_KEYBYTES);

// Each key seals one direction of one connection, so that a frame's number never repeats under it.
FrameNonce frame_nonce(std::uint64_t number) {
  FrameNonce nonce{};
  for (std::size_t i = 0; i < 8; ++i) nonce[i] = static_cast<std::uint8_t>(number >> (8 * i));
  return nonce;
}

}  // namespace

void set_liveness(Socket& socket) {
  asio::error_code ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  using Int = int;
  auto const set = [&](int option, Int value) {
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, 5);
  set(TCP_KEEPINTVL, 2);
  set(TCP_KEEPCNT, 3);
  set(TCP_USER_TIMEOUT, 10000);
}

SecureChannel::SecureChannel(Socket socket, const SessionKeys& keys, std::shared_ptr<const FlightRecorder> own)
    : socket_(std::move(socket)),
      keys_(keys),
      peer_(socket_, std::move(own)),
      timer_(socket_.get_executor()) {
  close_on_exec(socket_.native_handle());
}

void SecureChannel::start(OnMessage on_message, OnEnd on_end, std::chrono::milliseconds heartbeat_timeout) {
  on_message_ = std::move(on_message);
  on_end_ = std::move(on_end);
  set_liveness(socket_);
  heartbeat_timeout_ = heartbeat_timeout;
  heard_ = looked_ = next_beat_ = std::chrono::steady_clock::now();
  if (auto const introduction = peer_.introduction(); !introduction.is_null()) send(introduction);
  if (heartbeat_timeout_.count() > 0) look();
  read_length();
}

// Looks every quarter of the silence, when the other side hears from this one, and when the silence is over.
void SecureChannel::look() {
  auto const now = std::chrono::steady_clock::now();
  auto const rest = heartbeat_timeout_ / 4;
  // This process itself was stopped, or the whole job was: what the other side said meanwhile is not read
  // yet.
  if (now - looked_ > 2 * rest) heard_ = now;
  looked_ = now;
  if (now - heard_ > heartbeat_timeout_) {
    silent_ = true;
    return end("silent for " + text_of(heartbeat_timeout_));
  }
  if (now >= next_beat_) {
    next_beat_ = now + rest;
    send(peer_.beat());
    if (closing_) return;
  }
  timer_.expires_at(std::min(next_beat_, heard_ + heartbeat_timeout_ + std::chrono::milliseconds{1}));
  timer_.async_wait([self = shared_from_this()](const asio::error_code& error) {
    if (!error && !self->closing_) self->look();
  });
}

void SecureChannel::read_length() {
  asio::async_read(socket_, asio::buffer(length_),
                   [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                     if (error) return self->end(error.message());
                     std::uint32_t length = 0;
                     for (int i = 3; i >= 0; --i)
                       length = (length << 8) | self->length_[static_cast<std::size_t>(i)];
                     if (length < seal_bytes || length > max_frame_bytes)
                       return self->end("a frame of an impossible length came");
                     self->read_body(length);
                   });
}

void SecureChannel::read_body(std::uint32_t length) {
  body_.resize(length);
  asio::async_read(socket_, asio::buffer(body_),
                   [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                     if (error) return self->end(error.message());
                     self->open_frame();
                   });
}

void SecureChannel::open_frame() {
  auto const nonce = frame_nonce(received_++);
  Bytes plain(body_.size() - seal_bytes);
  unsigned long long length = 0;
  if (crypto_aead_chacha20poly1305_ietf_decrypt(plain.data(), &length, nullptr, body_.data(), body_.size(),
                                                length_.data(), length_.size(), nonce.data(),
                                                keys_.receive.data()) != 0) {
    return end("a frame with a wrong seal came");
  }
  auto const self = shared_from_this();
  try {
    Message const message = read_cbor(plain, "a control message", 7);
    heard_ = std::chrono::steady_clock::now();
    auto const handler = on_message_;  // the handler may close this channel
    if (!peer_.hear(message) && handler) handler(message);
  } catch (const std::exception& error) {
    return end(error.what());
  }
  if (!closing_) read_length();
}

void SecureChannel::send(const Message& message) {
  if (closing_ || mute_) return;
  Bytes const plain = write_cbor(message);
  if (plain.size() + seal_bytes > max_frame_bytes)
    return end("a control message over the length limit was to be sent");
  auto const length = static_cast<std::uint32_t>(plain.size() + seal_bytes);
  Bytes frame(4 + length);
  for (std::size_t i = 0; i < 4; ++i) frame[i] = static_cast<std::uint8_t>(length >> (8 * i));
  auto const nonce = frame_nonce(sent_++);
  unsigned long long written = 0;
  crypto_aead_chacha20poly1305_ietf_encrypt(frame.data() + 4, &written, plain.data(), plain.size(),
                                            frame.data(), 4, nullptr, nonce.data(), keys_.send.data());
  queue_bytes_ += frame.size();
  if (queue_bytes_ > max_queue_bytes) {
    mute_ = true;
    // Later: the caller may be going through a list of channels.
    return asio::post(socket_.get_executor(),
                      [self = shared_from_this()] { self->end("it takes nothing of what is sent to it"); });
  }
  queue_.push_back(std::move(frame));
  if (queue_.size() == 1) write_next();
}

void SecureChannel::write_next() {
  asio::async_write(socket_, asio::buffer(queue_.front()),
                    [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                      if (error) {
                        // What the other side said last, why it ended for example, may still be unread: the
                        // end shows in reading, too.
                        self->mute_ = true;
                        self->queue_.clear();
                        if (self->closing_) self->shut();
                        return;
                      }
                      self->queue_bytes_ -= self->queue_.front().size();
                      self->queue_.pop_front();
                      if (!self->queue_.empty()) return self->write_next();
                      if (self->closing_) self->shut();
                    });
}

void SecureChannel::close() {
  if (closing_) return;
  closing_ = true;
  timer_.cancel();
  on_message_ = nullptr;
  on_end_ = nullptr;
  if (queue_.empty()) shut();
}

DisconnectCause SecureChannel::ending(const std::string& reason) const {
  if (silent_) return peer_.ending(reason, heartbeat_timeout_);
  auto const quiet = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::steady_clock::now() - heard_);
  // It missed a beat: whatever closed the connection came after that.
  if (heartbeat_timeout_.count() > 0 && quiet > heartbeat_timeout_ / 2)
    return peer_.ending(fmt::format("{}, silent for {} before", reason, text_of(quiet)), {});
  return peer_.ending(reason, {});
}

void SecureChannel::end(const std::string& reason) {
  if (closing_) return shut();
  closing_ = true;
  shut();
  auto const on_end = std::move(on_end_);
  on_message_ = nullptr;
  on_end_ = nullptr;
  if (on_end) on_end(reason);
}

void SecureChannel::shut() {
  timer_.cancel();
  asio::error_code ignored;
  socket_.shutdown(asio::socket_base::shutdown_both, ignored);
  socket_.close(ignored);
}

}  // namespace muster::control
