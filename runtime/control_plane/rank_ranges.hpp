// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "transport/secure_channel.hpp"

namespace muster::control {

/// Encodes a list of ranks, of a job of `ranks` ranks, as runs {first, step, count}. A group that was split
/// by host or by local rank is one run, however large. All ranks in ascending order are null.
Message encode_ranks(const std::vector<int>& members, int ranks);

/// @throws Error(ErrorCode::system) unless each entry is a rank of the job and occurs once.
std::vector<int> decode_ranks(const Message& runs, int ranks);

}  // namespace muster::control
