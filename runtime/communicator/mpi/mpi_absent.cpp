// SPDX-License-Identifier: Apache-2.0
#include "communicator/mpi/mpi_session.hpp"
#include "muster/error.hpp"

namespace muster::detail {

bool can_start_mpi() { return false; }

std::shared_ptr<MpiSession> start_mpi(const JobContext&, const Deadline&) {
  throw Error(ErrorCode::environment,
              "this libmuster was built without Open MPI: several ranks on host memory need it");
}

}  // namespace muster::detail
