// SPDX-License-Identifier: Apache-2.0
#include "transport/handshake.hpp"

#include <sodium.h>

#include <algorithm>
#include <string_view>

#include "muster/error.hpp"

namespace muster::control {
namespace {

constexpr std::array<std::uint8_t, 8> magic{'m', 'u', 's', 't', 'e', 'r', 0, 1};

void start_sodium() {
  if (sodium_init() < 0)
    throw Error(ErrorCode::system, "libsodium cannot start (no source of random numbers?)");
}

std::array<std::uint8_t, 4> little_endian(std::uint32_t value) {
  return {static_cast<std::uint8_t>(value), static_cast<std::uint8_t>(value >> 8),
          static_cast<std::uint8_t>(value >> 16), static_cast<std::uint8_t>(value >> 24)};
}

std::array<std::uint8_t, 32> keyed_hash(const Key& key, std::string_view label,
                                        const HandshakeTranscript& introduction) {
  static_assert(key_bytes >= crypto_generichash_KEYBYTES_MIN && key_bytes <= crypto_generichash_KEYBYTES_MAX);
  crypto_generichash_state state;
  std::array<std::uint8_t, 32> hash{};
  auto const rank = little_endian(introduction.rank);
  crypto_generichash_init(&state, key.data(), key.size(), hash.size());
  // Labels have one length, so that no two inputs can be the same bytes.
  crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(label.data()), label.size());
  crypto_generichash_update(&state, rank.data(), rank.size());
  crypto_generichash_update(&state, introduction.of_rank.data(), introduction.of_rank.size());
  crypto_generichash_update(&state, introduction.of_leader.data(), introduction.of_leader.size());
  crypto_generichash_final(&state, hash.data(), hash.size());
  return hash;
}

constexpr std::string_view leader_proves = "muster leader proof ";
constexpr std::string_view rank_proves = "muster ranks proof  ";
constexpr std::string_view to_leader = "muster key to leader";
constexpr std::string_view to_rank = "muster key to rank  ";

}  // namespace

Key random_key() {
  start_sodium();
  Key key;
  randombytes_buf(key.data(), key.size());
  return key;
}

Nonce random_nonce() {
  start_sodium();
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

std::array<std::uint8_t, greeting_bytes> make_greeting(std::uint32_t rank, const Nonce& nonce) {
  std::array<std::uint8_t, greeting_bytes> bytes{};
  auto const rank_text = little_endian(rank);
  auto at = std::copy(magic.begin(), magic.end(), bytes.begin());
  at = std::copy(rank_text.begin(), rank_text.end(), at);
  std::copy(nonce.begin(), nonce.end(), at);
  return bytes;
}

std::optional<HandshakeTranscript> read_greeting(std::span<const std::uint8_t, greeting_bytes> bytes) {
  if (!std::equal(magic.begin(), magic.end(), bytes.begin())) return std::nullopt;
  HandshakeTranscript introduction;
  for (int i = 3; i >= 0; --i)
    introduction.rank = (introduction.rank << 8) | bytes[magic.size() + static_cast<std::size_t>(i)];
  std::copy(bytes.end() - nonce_bytes, bytes.end(), introduction.of_rank.begin());
  return introduction;
}

Mac leader_proof(const Key& key, const HandshakeTranscript& introduction) {
  return keyed_hash(key, leader_proves, introduction);
}
Mac rank_proof(const Key& key, const HandshakeTranscript& introduction) {
  return keyed_hash(key, rank_proves, introduction);
}

bool equal(std::span<const std::uint8_t, proof_bytes> a, const Mac& b) {
  return sodium_memcmp(a.data(), b.data(), b.size()) == 0;
}

std::string local_name(const Key& key, int leader) {
  auto const text = "muster unix socket of " + std::to_string(leader);
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

SessionKeys leader_keys(const Key& key, const HandshakeTranscript& introduction) {
  return {keyed_hash(key, to_rank, introduction), keyed_hash(key, to_leader, introduction)};
}

SessionKeys rank_keys(const Key& key, const HandshakeTranscript& introduction) {
  return {keyed_hash(key, to_leader, introduction), keyed_hash(key, to_rank, introduction)};
}

}  // namespace muster::control
