// SPDX-License-Identifier: Apache-2.0
// The handshake that authenticates a connection before any message is parsed. The rank is the client, its
// leader the server.
//
//   rank → leader   client hello: magic, rank, a new public key
//   leader → rank   server hello: a new public key, the leader's MAC
//   rank → leader   the rank's MAC
//   leader → rank   one byte: accepted
//
// A MAC is a keyed BLAKE2b hash (libsodium's generichash) of a label, the rank and both public keys under a
// key that follows from the job's key, the purpose of the connection and the leader. The two keys of the
// later frames come from libsodium's key exchange (crypto_kx: X25519, BLAKE2b) and from the job's key. The
// secret keys are erased after the handshake. So a process without the job's key can neither read, forge nor
// replay frames, and one that learns the job's key later cannot read what it has recorded.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace muster::control {

inline constexpr std::size_t key_bytes = 32;
inline constexpr std::size_t nonce_bytes = 32;
inline constexpr std::size_t public_key_bytes = 32;  // crypto_kx_PUBLICKEYBYTES
inline constexpr std::size_t mac_bytes = 32;
inline constexpr std::size_t client_hello_bytes = 8 + 4 + public_key_bytes;
inline constexpr std::size_t server_hello_bytes = public_key_bytes + mac_bytes;

using Key = std::array<std::uint8_t, key_bytes>;
using Nonce = std::array<std::uint8_t, nonce_bytes>;
using PublicKey = std::array<std::uint8_t, public_key_bytes>;
using Mac = std::array<std::uint8_t, mac_bytes>;

/// This side's keys of one connection.
struct SessionKeys {
  Key send{};
  Key receive{};
};

/// One side's keys for one handshake. The destructor erases the secret one.
class KeyPair {
 public:
  /// @throws Error(ErrorCode::system) when libsodium cannot start.
  KeyPair();
  ~KeyPair();
  KeyPair(const KeyPair&) = delete;
  KeyPair& operator=(const KeyPair&) = delete;

  const PublicKey& public_key() const { return public_; }
  const Key& secret_key() const { return secret_; }

 private:
  PublicKey public_{};
  Key secret_{};
};

/// What both sides of a handshake know.
struct HandshakeTranscript {
  std::uint32_t rank = 0;
  PublicKey client_key{};
  PublicKey server_key{};
};

/// @throws Error(ErrorCode::system) when libsodium cannot start.
Key random_key();
Nonce random_nonce();

/// What ranks connect for.
namespace purpose {
inline constexpr std::string_view rendezvous = "rendezvous";
inline constexpr std::string_view process_report = "process report";
inline constexpr std::string_view control_plane = "control plane";
inline constexpr std::string_view recovery = "recovery";
inline constexpr std::string_view parameter_server = "parameter server";
}  // namespace purpose

/// The key with which ranks authenticate to one leader for one purpose: a proof for another purpose or
/// leader is none here. After each loss of ranks the job's key is a new one.
Key purpose_key(const Key& job_key, std::string_view purpose, int leader);

/// A key that every process can derive which has `bytes`.
Key hash_to_key(std::span<const std::uint8_t> bytes);

/// The job's key from the one that rank 0 sends and the user's own, both of which a stranger would need;
/// `sent` without the latter.
Key mix_keys(const Key& sent, const std::optional<Key>& users);

std::array<std::uint8_t, client_hello_bytes> make_client_hello(std::uint32_t rank, const PublicKey& key);
/// Fills rank and client_key. Returns nothing for another magic: no rank of Muster, or another version.
std::optional<HandshakeTranscript> parse_client_hello(
    std::span<const std::uint8_t, client_hello_bytes> bytes);

Mac server_mac(const Key& key, const HandshakeTranscript& transcript);
Mac client_mac(const Key& key, const HandshakeTranscript& transcript);
/// Compares in constant time.
bool equal(std::span<const std::uint8_t, mac_bytes> a, const Mac& b);

/// A name for a UNIX socket. Without the key it cannot be guessed in advance.
std::string local_name(const Key& key);

/// The keys of the later frames. `own`: this side's key pair, whose public key is in the transcript.
/// @throws Error(ErrorCode::system) when the other side's public key is none.
SessionKeys server_keys(const Key& key, const HandshakeTranscript& transcript, const KeyPair& own);
SessionKeys client_keys(const Key& key, const HandshakeTranscript& transcript, const KeyPair& own);

}  // namespace muster::control
