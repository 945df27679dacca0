// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "rendezvous/credential.hpp"
#include "transport/handshake.hpp"

namespace muster::bootstrap {

/// Seals the job's key, which travels through PMIx: Slurm sends what ranks publish from node to node in plain
/// text. Seals process reports in the same way. Seals with MUNGE, if munged answers, and with the user's key,
/// if there is one. A host whose own munged answers takes nothing that is not sealed. Not thread-safe.
class KeySeal {
 public:
  /// `make_munge`: called once, when MUNGE is needed first; null: without MUNGE.
  using MakeMunge = std::function<std::unique_ptr<CredentialCodec>()>;
  KeySeal(MakeMunge make_munge, const std::optional<control::Key>& user_key)
      : make_munge_(std::move(make_munge)), user_key_(user_key) {}

  /// `warns`: prints a warning where there is a libmunge, but `plain` will leave this host unsealed.
  std::vector<std::uint8_t> seal(std::span<const std::uint8_t> plain, bool warns = true);
  /// @throws Error(ErrorCode::environment) with the reason and what to do: no MUNGE here, or on the sender's
  /// host only, another user's credential, another user's key or none on one side; system when it is damaged.
  std::vector<std::uint8_t> open(std::span<const std::uint8_t> sealed);

  /// Whether every process of this user can open `sealed`, and nobody else can.
  static bool needs_only_munge(std::span<const std::uint8_t> sealed);

 private:
  CredentialCodec& munge();
  bool munge_answers();
  std::vector<std::uint8_t> decode_credential(std::span<const std::uint8_t> credential);

  MakeMunge make_munge_;
  std::unique_ptr<CredentialCodec> munge_;
  std::optional<bool> munge_answers_;
  std::optional<control::Key> user_key_;
};

}  // namespace muster::bootstrap
