// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace muster::control {

/// Raises this process's soft limit of open files (setrlimit(2), RLIMIT_NOFILE) when rank 0's `connections`
/// and the program's own files may exceed it; leaves a sufficient limit alone.
/// @throws Error(ErrorCode::environment) when the hard limit is too low.
void raise_fd_limit(std::size_t connections);

/// How many more files this process may open (RLIMIT_NOFILE); counts up to `most`.
std::size_t free_descriptors(std::size_t most);

}  // namespace muster::control
