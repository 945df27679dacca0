// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "launcher/launcher_detection.hpp"

namespace muster::bootstrap {

/// The error when mpirun did not read the hostfile of Kubernetes' MPI Operator, so that a job of several pods
/// runs on one. The operator names the file in OMPI_MCA_orte_default_hostfile, which Open MPI 5 ignores
/// (kubeflow/mpi-operator#842). Found by the slots: the file has more than mpirun knows
/// (OMPI_UNIVERSE_SIZE). Nothing without that variable, below Open MPI 4, or when the file cannot be read.
std::optional<Error> check_hostfile_was_read(const GetEnv& get_env);

}  // namespace muster::bootstrap
