// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "transport/secure_channel.hpp"

namespace muster::control {

/// Which of a job's `ranks` ranks a message is about: as the runs {first, step, count} in which they follow
/// each other. However large the groups that come of splitting by host or by local rank, they are one run;
/// all ranks in their order are null.
Message members_to_message(const std::vector<int>& members, int ranks);

/// @throws Error(ErrorCode::system) unless they are ranks of the job, each once.
std::vector<int> members_from(const Message& runs, int ranks);

}  // namespace muster::control
