// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "muster/job.hpp"

namespace muster::detail {

/// To be called before MPI_Init. In a job of several hosts, where Open MPI would use interfaces that do not
/// reach the other hosts, sets the one on which the other hosts reach this rank, unless the user or the
/// administrator has chosen. Returns its name, or an empty text if it set nothing.
std::string choose_tcp_interface(const std::vector<Hello>& roster, int rank);

}  // namespace muster::detail
