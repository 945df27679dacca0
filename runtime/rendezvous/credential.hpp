// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "deadline.hpp"

namespace muster::bootstrap {

/// How two processes of one user make sure of each other before they share a key. Thread-safe.
class CredentialCodec {
 public:
  virtual ~CredentialCodec() = default;
  /// Wraps bytes so that only processes of this user can read them.
  /// @throws Error(ErrorCode::system)
  virtual std::vector<std::uint8_t> close(std::span<const std::uint8_t> bytes) = 0;
  /// @throws Error(ErrorCode::system) when another user made it, when it was opened before, or when it is no
  /// seal.
  virtual std::vector<std::uint8_t> open(std::span<const std::uint8_t> sealed) = 0;
};

/// MUNGE credentials that only this user can decode; MUNGE encrypts what they carry and refuses to decode one
/// twice on a host. libmunge.so.2, or the file that MUSTER_MUNGE_LIBRARY names, is loaded when this is
/// called. A munged that does not answer is given up well before the join's deadline.
/// @throws Error, saying what is missing: device when there is no libmunge, system when no munged
/// answers.
std::unique_ptr<CredentialCodec> make_munge_codec(const Deadline& deadline);

/// Wraps nothing: for UNIX sockets, where the kernel says whose process is at the other end.
std::unique_ptr<CredentialCodec> make_peercred_codec();

}  // namespace muster::bootstrap
