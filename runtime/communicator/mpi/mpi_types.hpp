// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include "muster/types.hpp"

namespace muster::detail {

/// MPI's types and operations for Muster's. For 16-bit floats, which MPI lacks, they are user-defined.
/// average maps to the sum; the caller divides.
class MpiTypes {
 public:
  /// To be called after MPI_Init.
  MpiTypes();
  /// To be called before MPI_Finalize.
  void free();

  MPI_Datatype type(DataType type) const;
  MPI_Op op(DataType type, Reduction op) const;

 private:
  MPI_Datatype two_bytes_ = MPI_DATATYPE_NULL;
  MPI_Op bfloat16_[4];  // sum, min, max, product
  MPI_Op half_[4];
};

}  // namespace muster::detail
