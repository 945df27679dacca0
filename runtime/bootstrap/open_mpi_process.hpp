// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pmix.h>

namespace muster::bootstrap {

/// Gives Open MPI 5 the name under which PMIx knows this process. Its MPI_Init takes it from its own
/// PMIx_Init, which it leaves out where PMIx is initialised, and then fails. Does nothing where Open MPI is
/// absent, has a name or keeps it elsewhere.
/// @param self what PMIx_Init said
void name_open_mpi_process(const pmix_proc_t& self);

}  // namespace muster::bootstrap
