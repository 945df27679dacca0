// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::bootstrap {

/// Gives Open MPI 5 this process's PMIx name. MPI_Init normally gets it from its own PMIx_Init, but skips
/// that call when PMIx is initialised already, and then fails. Does nothing when PMIx is not initialised, and
/// when Open MPI is not loaded, has a name or stores it elsewhere.
void set_open_mpi_process_name();

}  // namespace muster::bootstrap
