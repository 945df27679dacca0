// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace muster::detail {

/// NCCL_RUNTIME_CONNECT decides when NCCL makes its connections. 0: all of them while a communicator is
/// created. 1: those of each algorithm in the first operation that uses it; this is NCCL's default since 2.22
/// wherever it has cuMem memory (src/init.cc, runtimeConn). Ranks with different values would wait for each
/// other forever.

/// Sets NCCL_RUNTIME_CONNECT=0 for this process, unless the environment or one of NCCL's files sets it. To be
/// called before NCCL first reads it, and while no other thread reads the environment.
void set_eager_connect();

/// The value of NCCL_RUNTIME_CONNECT in this process: 0 or 1.
std::uint8_t lazy_connect();

}  // namespace muster::detail
