// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pmix.h>

namespace muster::bootstrap {

/// Gives Open MPI 5 this process's PMIx name. MPI_Init normally gets it from its own PMIx_Init, but skips
/// that call when PMIx is initialised already, and then fails. Does nothing when Open MPI is absent, has a
/// name or stores it elsewhere.
/// @param self from PMIx_Init
void set_open_mpi_process_name(const pmix_proc_t& self);

}  // namespace muster::bootstrap
