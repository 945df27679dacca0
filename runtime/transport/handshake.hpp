// SPDX-License-Identifier: Apache-2.0
// How a connection proves that it belongs to the job, before anything it says is looked at.
//
//   rank → leader   greeting: magic, rank, nonce
//   leader → rank   answer: nonce, the leader's proof
//   rank → leader   the rank's proof
//   leader → rank   one byte: welcome
//
// A proof is a keyed BLAKE2b hash (libsodium's generichash) of a label, the rank and both nonces under the
// job's key. The two keys of the frames that follow are derived in the same way, so that nothing can be read,
// forged or replayed by who lacks the job's key.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace muster::control {

inline constexpr std::size_t key_bytes = 32;
inline constexpr std::size_t nonce_bytes = 32;
inline constexpr std::size_t proof_bytes = 32;
inline constexpr std::size_t greeting_bytes = 8 + 4 + nonce_bytes;
inline constexpr std::size_t answer_bytes = nonce_bytes + proof_bytes;

using Key = std::array<std::uint8_t, key_bytes>;
using Nonce = std::array<std::uint8_t, nonce_bytes>;
using Mac = std::array<std::uint8_t, proof_bytes>;

/// The keys of one connection, as this side uses them.
struct SessionKeys {
  Key send{};
  Key receive{};
};

/// Both sides of one handshake know these.
struct HandshakeTranscript {
  std::uint32_t rank = 0;
  Nonce of_rank{};
  Nonce of_leader{};
};

/// @throws Error(ErrorCode::system) when libsodium cannot start.
Key random_key();
Nonce random_nonce();

std::array<std::uint8_t, greeting_bytes> make_greeting(std::uint32_t rank, const Nonce& nonce);
/// Fills rank and of_rank. Nothing when the magic is another: not one of us, or another version.
std::optional<HandshakeTranscript> read_greeting(std::span<const std::uint8_t, greeting_bytes> bytes);

Mac leader_proof(const Key& key, const HandshakeTranscript& introduction);
Mac rank_proof(const Key& key, const HandshakeTranscript& introduction);
/// In constant time.
bool equal(std::span<const std::uint8_t, proof_bytes> a, const Mac& b);

/// The name of the UNIX socket where a host's leader takes its host's ranks in. Only who has the key can know
/// it before it is there.
std::string local_name(const Key& key, int leader);

SessionKeys leader_keys(const Key& key, const HandshakeTranscript& introduction);
SessionKeys rank_keys(const Key& key, const HandshakeTranscript& introduction);

}  // namespace muster::control
