// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace muster::detail {

/// When NCCL makes its connections: NCCL_RUNTIME_CONNECT, where 0 means all of them while a communicator is
/// made, and 1, NCCL's own default since 2.22 wherever it has cuMem memory, each algorithm's in the first
/// operation that takes it (src/init.cc, runtimeConn). Ranks that differ in it would wait for each other for
/// ever.

/// NCCL_RUNTIME_CONNECT=0 for this process, unless the environment or one of NCCL's files sets it. Before
/// NCCL first asks, and while no other thread reads the environment.
void connect_at_start();

/// What NCCL_RUNTIME_CONNECT says to this process: 0 or 1.
std::uint8_t connects_later();

}  // namespace muster::detail
