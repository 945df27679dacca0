// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <memory>

#include "communicator/communicator_group.hpp"
#include "communicator/host/host_all_reduce.hpp"
#include "communicator/mpi/mpi_requests.hpp"

namespace muster::detail {

/// The all-reduce of the ranks of `comm`, which are `group`: in shared memory within a host, and by messages
/// between hosts. Null if the ranks of a host cannot share memory, or there is one rank. Collective. The
/// result uses `requests`.
std::unique_ptr<HostAllReduce> make_host_all_reduce(CommunicatorGroup& group, MPI_Comm comm,
                                                    MpiRequests& requests);

}  // namespace muster::detail
