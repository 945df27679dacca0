// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "compute/host_copy.hpp"
#include "compute/memory.hpp"
#include "muster/communicator.hpp"

namespace muster {

/// Sends values of `memory`, which may be a device's, through a communicator on host memory.
inline void send_from(compute::Memory& memory, std::span<const float> values, Communicator& host, int to) {
  host.send(compute::HostCopy(values, memory).values(), to);
}

/// The reverse.
inline void receive_into(compute::Memory& memory, std::span<float> values, Communicator& host, int from) {
  if (memory.is_host()) return host.recv(values, from);
  std::vector<float> received(values.size());
  host.recv(std::span<float>(received), from);
  memory.copy_in(values.data(), received.data(), values.size_bytes());
}

}  // namespace muster
