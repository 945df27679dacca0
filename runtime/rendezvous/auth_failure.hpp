// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace muster::bootstrap {

/// Why a rank cannot take part in a meeting, as it says so without proof.
enum class AuthFailure : std::uint8_t { none, no_library, no_munged };

/// "its host has no MUNGE library".
const char* words_of(AuthFailure obstacle);

}  // namespace muster::bootstrap
