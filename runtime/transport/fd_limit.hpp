// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace muster::control {

/// Rank 0 holds a connection to each host: where this process may not have so many descriptors beside those
/// of its program, its soft limit is raised (setrlimit(2), RLIMIT_NOFILE), which it otherwise leaves alone.
/// @throws Error(ErrorCode::environment) when the hard limit is too low.
void raise_fd_limit(std::size_t connections);

}  // namespace muster::control
