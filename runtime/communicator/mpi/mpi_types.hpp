// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include "muster/types.hpp"

namespace muster::detail {

/// MPI's names for our types and reductions, with types and operations of our own for the 16-bit floats,
/// which MPI lacks. average maps to the sum; the caller divides.
class MpiTypes {
 public:
  /// After MPI_Init.
  MpiTypes();
  /// Before MPI_Finalize.
  void free();

  MPI_Datatype type(DataType type) const;
  MPI_Op op(DataType type, Reduction op) const;

 private:
  MPI_Datatype two_bytes_ = MPI_DATATYPE_NULL;
  MPI_Op bfloat16_[4];  // sum, min, max, product
  MPI_Op half_[4];
};

}  // namespace muster::detail
