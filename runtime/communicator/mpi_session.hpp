// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "communicator/mpi_types.hpp"

namespace muster::detail {

/// What the communicators on MPI share.
struct MpiState {
  std::unique_ptr<MpiTypes> types;
  bool open = true;    ///< false once the job was left: MPI may be finalized
  bool yield = false;  ///< ranks share cores: give the core away while waiting
};

/// MPI's text for an error code.
std::string mpi_reason(int code);

}  // namespace muster::detail
