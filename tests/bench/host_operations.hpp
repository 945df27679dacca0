// SPDX-License-Identifier: Apache-2.0
// The operations that bench_host_collectives measures, and bfloat16 arithmetic as an MPI user would write it.
#pragma once

#include <mpi.h>

#include <map>
#include <sstream>
#include <string>

#include "muster/muster.hpp"

namespace host_operations {

using muster::bfloat16;
using muster::Reduction;

/// OPERATION[:WORD…]
struct Operation {
  std::string text;  ///< as given on the command line
  std::string name;
  std::string type;  ///< empty: not given
  Reduction reduction = Reduction::sum;
  bool apart = false;
};

inline bool reduces(const std::string& name) {
  return name == "all_reduce" || name == "reduce" || name == "reduce_scatter";
}

/// @throws muster::Error(ErrorCode::usage) for an option that the operation does not have.
inline Operation read_operation(const std::string& text) {
  std::istringstream options(text);
  Operation operation{.text = text, .name = "", .type = ""};
  std::getline(options, operation.name, ':');
  std::map<std::string, Reduction> const reductions{{"sum", Reduction::sum},
                                                    {"max", Reduction::max},
                                                    {"min", Reduction::min},
                                                    {"product", Reduction::product}};
  for (std::string option; std::getline(options, option, ':');) {
    auto const reduction = reductions.find(option);
    if (option == "float32" || option == "float64" || option == "bfloat16") {
      operation.type = option;
    } else if (reduction != reductions.end() && reduces(operation.name)) {
      operation.reduction = reduction->second;
    } else if (option == "apart" && operation.name == "all_reduce") {
      operation.apart = true;
    } else {
      throw muster::Error(muster::ErrorCode::usage,
                          "'" + text + "': " + operation.name + " has no '" + option + "'");
    }
  }
  return operation;
}

// A reduction as an MPI user writes it for a type that MPI lacks.
template <typename Combine>
inline void combine_bfloat16(void* in, void* inout, int* length, Combine combine) {
  auto const* const from = static_cast<const bfloat16*>(in);
  auto* const to = static_cast<bfloat16*>(inout);
  for (int i = 0; i < *length; ++i)
    to[i] = bfloat16(combine(static_cast<float>(from[i]), static_cast<float>(to[i])));
}
inline void add_bfloat16(void* in, void* inout, int* length, MPI_Datatype*) {
  combine_bfloat16(in, inout, length, [](float a, float b) { return a + b; });
}
inline void multiply_bfloat16(void* in, void* inout, int* length, MPI_Datatype*) {
  combine_bfloat16(in, inout, length, [](float a, float b) { return a * b; });
}
inline void larger_bfloat16(void* in, void* inout, int* length, MPI_Datatype*) {
  combine_bfloat16(in, inout, length, [](float a, float b) { return a < b ? b : a; });
}
inline void smaller_bfloat16(void* in, void* inout, int* length, MPI_Datatype*) {
  combine_bfloat16(in, inout, length, [](float a, float b) { return b < a ? b : a; });
}

struct Raw {
  MPI_Datatype type;
  MPI_Op op;
};

inline MPI_Op to_mpi_op(Reduction reduction) {
  switch (reduction) {
    case Reduction::max:
      return MPI_MAX;
    case Reduction::min:
      return MPI_MIN;
    case Reduction::product:
      return MPI_PROD;
    default:
      return MPI_SUM;
  }
}

/// The caller frees both.
inline Raw raw_bfloat16(Reduction reduction) {
  Raw raw{};
  MPI_Type_contiguous(2, MPI_BYTE, &raw.type);
  MPI_Type_commit(&raw.type);
  auto* const combine = reduction == Reduction::max       ? &larger_bfloat16
                        : reduction == Reduction::min     ? &smaller_bfloat16
                        : reduction == Reduction::product ? &multiply_bfloat16
                                                          : &add_bfloat16;
  MPI_Op_create(combine, 1, &raw.op);
  return raw;
}

}  // namespace host_operations
