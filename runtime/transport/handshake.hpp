// SPDX-License-Identifier: Apache-2.0
// The handshake that authenticates a connection before any message is parsed. The rank is the client, its
// leader the server.
//
//   rank → leader   client hello: magic, rank, nonce
//   leader → rank   server hello: nonce, the leader's MAC
//   rank → leader   the rank's MAC
//   leader → rank   one byte: accepted
//
// A MAC is a keyed BLAKE2b hash (libsodium's generichash) of a label, the rank and both nonces under the
// job's key. The two keys of the later frames are derived in the same way. So a process without the job's key
// can neither read, forge nor replay frames.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace muster::control {

inline constexpr std::size_t key_bytes = 32;
inline constexpr std::size_t nonce_bytes = 32;
inline constexpr std::size_t mac_bytes = 32;
inline constexpr std::size_t client_hello_bytes = 8 + 4 + nonce_bytes;
inline constexpr std::size_t server_hello_bytes = nonce_bytes + mac_bytes;

using Key = std::array<std::uint8_t, key_bytes>;
using Nonce = std::array<std::uint8_t, nonce_bytes>;
using Mac = std::array<std::uint8_t, mac_bytes>;

/// This side's keys of one connection.
struct SessionKeys {
  Key send{};
  Key receive{};
};

/// What both sides of a handshake know.
struct HandshakeTranscript {
  std::uint32_t rank = 0;
  Nonce client_nonce{};
  Nonce server_nonce{};
};

/// @throws Error(ErrorCode::system) when libsodium cannot start.
Key random_key();
Nonce random_nonce();

/// The job's key from the one that rank 0 sends and the user's own, both of which a stranger would need;
/// `sent` without the latter.
Key mix_keys(const Key& sent, const std::optional<Key>& users);

std::array<std::uint8_t, client_hello_bytes> make_client_hello(std::uint32_t rank, const Nonce& nonce);
/// Fills rank and client_nonce. Returns nothing for another magic: no rank of Muster, or another version.
std::optional<HandshakeTranscript> parse_client_hello(
    std::span<const std::uint8_t, client_hello_bytes> bytes);

Mac server_mac(const Key& key, const HandshakeTranscript& transcript);
Mac client_mac(const Key& key, const HandshakeTranscript& transcript);
/// Compares in constant time.
bool equal(std::span<const std::uint8_t, mac_bytes> a, const Mac& b);

/// The name of the UNIX socket on which a host leader accepts its host's ranks. Without the key it cannot be
/// guessed in advance.
std::string local_name(const Key& key, int leader);

SessionKeys server_keys(const Key& key, const HandshakeTranscript& transcript);
SessionKeys client_keys(const Key& key, const HandshakeTranscript& transcript);

}  // namespace muster::control
