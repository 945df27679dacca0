// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace muster::bootstrap {

/// Why a rank cannot authenticate itself in the rendezvous. Ranks send it unauthenticated.
enum class AuthFailure : std::uint8_t { none, no_munge_library, no_munged };

/// "its host has no MUNGE library".
const char* to_string(AuthFailure auth_failure);

}  // namespace muster::bootstrap
