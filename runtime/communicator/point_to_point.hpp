// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstddef>
#include <vector>

namespace muster::detail {

/// Messages between ranks of one communicator; every wait for them is bounded.
class PointToPoint {
 public:
  using Batch = std::vector<MPI_Request>;
  virtual ~PointToPoint() = default;
  virtual void begin_send(const void* from, std::size_t bytes, int peer, Batch& batch) = 0;
  virtual void begin_recv(void* to, std::size_t bytes, int peer, Batch& batch) = 0;
  /// Returns when all requests of `batch` are complete; `batch` is then empty.
  virtual void wait(Batch& batch) = 0;
};

}  // namespace muster::detail
