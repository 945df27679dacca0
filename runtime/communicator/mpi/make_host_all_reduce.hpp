// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <memory>

#include "communicator/communicator_group.hpp"
#include "communicator/host/host_all_reduce.hpp"
#include "communicator/mpi/mpi_requests.hpp"

namespace muster::detail {

/// The all-reduce of the ranks of `comm`, which are `group`: in shared memory within a host, where all ranks
/// can share it, and by messages otherwise. Null for one rank. Collective. The result uses `requests`.
std::unique_ptr<HostAllReduce> make_host_all_reduce(CommunicatorGroup& group, MPI_Comm comm,
                                                    MpiRequests& requests);

}  // namespace muster::detail
