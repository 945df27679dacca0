// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "launcher/launcher_detection.hpp"

namespace muster::bootstrap {

/// The error when mpirun did not read the hostfile of Kubernetes' MPI Operator, so that a job of several pods
/// runs on one. The operator names the file in OMPI_MCA_orte_default_hostfile, which Open MPI 5 ignores
/// (kubeflow/mpi-operator#842). `host`: this process's, which the file may name with its domain. Found when
/// all ranks are on this host, and are more than its slots in the file, or mpirun knows fewer slots
/// (OMPI_UNIVERSE_SIZE) than the file has. Nothing without that variable, with Open MPI 4, or when the file
/// cannot be read.
std::optional<Error> check_hostfile_was_read(const GetEnv& get_env, const std::string& host);

}  // namespace muster::bootstrap
