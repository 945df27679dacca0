// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sodium.h>

#include <array>
#include <cstdint>
#include <span>

#include "frames.hpp"
#include "transport/handshake.hpp"

namespace muster::fuzz {

/// The sending side of control::SecureChannel's frames, for arbitrary bytes.
class FrameEncryptor {
 public:
  explicit FrameEncryptor(const control::Key& key) : key_(key) {}

  void append(Bytes& to, std::span<const std::uint8_t> plain) {
    auto const length = static_cast<std::uint32_t>(plain.size() + crypto_aead_chacha20poly1305_IETF_ABYTES);
    std::array<std::uint8_t, 4> head{};
    std::array<std::uint8_t, crypto_aead_chacha20poly1305_IETF_NPUBBYTES> nonce{};
    for (std::size_t i = 0; i < 4; ++i) head[i] = static_cast<std::uint8_t>(length >> (8 * i));
    for (std::size_t i = 0; i < 8; ++i) nonce[i] = static_cast<std::uint8_t>(number_ >> (8 * i));
    ++number_;
    Bytes body(length);
    unsigned long long written = 0;
    crypto_aead_chacha20poly1305_ietf_encrypt(body.data(), &written, plain.data(), plain.size(), head.data(),
                                              head.size(), nullptr, nonce.data(), key_.data());
    to.insert(to.end(), head.begin(), head.end());
    to.insert(to.end(), body.begin(), body.end());
  }

 private:
  control::Key key_;
  std::uint64_t number_ = 0;
};

}  // namespace muster::fuzz
