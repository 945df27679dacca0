// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "deadline.hpp"

namespace muster::bootstrap {

/// How two processes of one user authenticate each other before they share a key. Thread-safe.
class CredentialCodec {
 public:
  virtual ~CredentialCodec() = default;
  /// Wraps bytes so that only processes of this user can read them.
  /// @throws Error(ErrorCode::system)
  virtual std::vector<std::uint8_t> encode(std::span<const std::uint8_t> bytes) = 0;
  /// Unwraps them.
  /// @throws Error(ErrorCode::system) when another user made it, when it was decoded before, or when it is
  /// not a credential.
  virtual std::vector<std::uint8_t> decode(std::span<const std::uint8_t> credential) = 0;
};

/// MUNGE credentials that only this user can decode. MUNGE encrypts the payload and refuses to decode a
/// credential twice on a host. This call loads libmunge.so.2, or the file that MUSTER_MUNGE_LIBRARY names. It
/// gives up on a munged that does not answer well before the join's deadline.
/// `several_readers`: all processes of this user may decode a credential, several on a host and at any time.
/// It then hides its content, and does not show that it is new.
/// @throws Error: device when there is no libmunge; system when no munged answers, which with
/// `several_readers` perhaps only encode() and decode() do.
std::unique_ptr<CredentialCodec> make_munge_codec(const Deadline& deadline, bool several_readers = false);

/// Copies the bytes unchanged: for UNIX sockets, where the kernel reports the peer's user (SO_PEERCRED).
std::unique_ptr<CredentialCodec> make_peercred_codec();

}  // namespace muster::bootstrap
