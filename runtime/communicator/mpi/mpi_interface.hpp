// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "muster/job.hpp"

namespace muster::detail {

/// Before MPI_Init, in a job of several hosts: where Open MPI would take interfaces that lead nowhere, names
/// the one on which the other hosts reach this rank, unless the user or the administrator has chosen. Returns
/// its name, empty when it has set nothing.
std::string choose_tcp_interface(const std::vector<Hello>& roster, int rank);

}  // namespace muster::detail
