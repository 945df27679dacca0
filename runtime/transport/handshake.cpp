// SPDX-License-Identifier: Apache-2.0
#include "transport/handshake.hpp"

#include <sodium.h>

#include <algorithm>
#include <string_view>

#include "muster/error.hpp"

namespace muster::control {
namespace {

constexpr std::array<std::uint8_t, 8> magic{'m', 'u', 's', 't', 'e', 'r', 0, 2};

void init_sodium() {
  if (sodium_init() < 0)
    throw Error(ErrorCode::system, "libsodium cannot start (no source of random numbers?)");
}

std::array<std::uint8_t, 4> little_endian(std::uint32_t value) {
  return {static_cast<std::uint8_t>(value), static_cast<std::uint8_t>(value >> 8),
          static_cast<std::uint8_t>(value >> 16), static_cast<std::uint8_t>(value >> 24)};
}

std::array<std::uint8_t, 32> keyed_hash(const Key& key, std::string_view label,
                                        const HandshakeTranscript& transcript) {
  static_assert(key_bytes >= crypto_generichash_KEYBYTES_MIN && key_bytes <= crypto_generichash_KEYBYTES_MAX);
  crypto_generichash_state state;
  std::array<std::uint8_t, 32> hash{};
  auto const rank = little_endian(transcript.rank);
  crypto_generichash_init(&state, key.data(), key.size(), hash.size());
  // All labels have the same length, so that no two inputs are the same bytes.
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(label.data()), label.size());
  crypto_generichash_update(&state, rank.data(), rank.size());
  crypto_generichash_update(&state, transcript.client_key.data(), transcript.client_key.size());
  crypto_generichash_update(&state, transcript.server_key.data(), transcript.server_key.size());
  crypto_generichash_final(&state, hash.data(), hash.size());
  return hash;
}

constexpr std::string_view server_mac_label = "muster leader proof ";
constexpr std::string_view client_mac_label = "muster ranks proof  ";

}  // namespace

Key random_key() {
  init_sodium();
  Key key;
  randombytes_buf(key.data(), key.size());
  return key;
}

Nonce random_nonce() {
  init_sodium();
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

KeyPair::KeyPair() {
  static_assert(public_key_bytes == crypto_kx_PUBLICKEYBYTES && key_bytes == crypto_kx_SECRETKEYBYTES);
  init_sodium();
  crypto_kx_keypair(public_.data(), secret_.data());
}

KeyPair::~KeyPair() { sodium_memzero(secret_.data(), secret_.size()); }

Key purpose_key(const Key& job_key, std::string_view purpose, int leader) {
  auto const text = "muster purpose " + std::string(purpose) + "/" + std::to_string(leader);
  Key key{};
  crypto_generichash(key.data(), key.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     job_key.data(), job_key.size());
  return key;
}

Key hash_to_key(std::span<const std::uint8_t> bytes) {
  Key key{};
  crypto_generichash(key.data(), key.size(), bytes.data(), bytes.size(), nullptr, 0);
  return key;
}

Key mix_keys(const Key& sent, const std::optional<Key>& users) {
  if (!users) return sent;
  Key mixed{};
  crypto_generichash(mixed.data(), mixed.size(), users->data(), users->size(), sent.data(), sent.size());
  return mixed;
}

std::array<std::uint8_t, client_hello_bytes> make_client_hello(std::uint32_t rank, const PublicKey& key) {
  std::array<std::uint8_t, client_hello_bytes> bytes{};
  auto const rank_bytes = little_endian(rank);
  auto at = std::copy(magic.begin(), magic.end(), bytes.begin());
  at = std::copy(rank_bytes.begin(), rank_bytes.end(), at);
  std::copy(key.begin(), key.end(), at);
  return bytes;
}

std::optional<HandshakeTranscript> parse_client_hello(
    std::span<const std::uint8_t, client_hello_bytes> bytes) {
  if (!std::equal(magic.begin(), magic.end(), bytes.begin())) return std::nullopt;
  HandshakeTranscript transcript;
  for (int i = 3; i >= 0; --i)
    transcript.rank = (transcript.rank << 8) | bytes[magic.size() + static_cast<std::size_t>(i)];
  std::copy(bytes.end() - public_key_bytes, bytes.end(), transcript.client_key.begin());
  return transcript;
}

Mac server_mac(const Key& key, const HandshakeTranscript& transcript) {
  return keyed_hash(key, server_mac_label, transcript);
}
Mac client_mac(const Key& key, const HandshakeTranscript& transcript) {
  return keyed_hash(key, client_mac_label, transcript);
}

bool equal(std::span<const std::uint8_t, mac_bytes> a, const Mac& b) {
  return sodium_memcmp(a.data(), b.data(), b.size()) == 0;
}

std::string local_name(const Key& key) {
  constexpr std::string_view text = "muster unix socket";
  std::array<std::uint8_t, 16> hash{};
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const unsigned char*>(text.data()),
                     text.size(), key.data(), key.size());
  std::string name = "muster/";
  for (auto const byte : hash) {
    name += "0123456789abcdef"[byte >> 4];
    name += "0123456789abcdef"[byte & 15];
  }
  return name;
}

namespace {

using Exchange = int (*)(unsigned char* receive, unsigned char* send, const unsigned char* own_public,
                         const unsigned char* own_secret, const unsigned char* other_public);

SessionKeys exchange_keys(Exchange exchange, const Key& key, const KeyPair& own, const PublicKey& other) {
  static_assert(key_bytes == crypto_kx_SESSIONKEYBYTES);
  SessionKeys keys;
  if (exchange(keys.receive.data(), keys.send.data(), own.public_key().data(), own.secret_key().data(),
               other.data()) != 0)
    throw Error(ErrorCode::system, "it sent an invalid public key");
  return {mix_keys(keys.send, key), mix_keys(keys.receive, key)};
}

}  // namespace

SessionKeys server_keys(const Key& key, const HandshakeTranscript& transcript, const KeyPair& own) {
  return exchange_keys(crypto_kx_server_session_keys, key, own, transcript.client_key);
}

SessionKeys client_keys(const Key& key, const HandshakeTranscript& transcript, const KeyPair& own) {
  return exchange_keys(crypto_kx_client_session_keys, key, own, transcript.server_key);
}

}  // namespace muster::control
