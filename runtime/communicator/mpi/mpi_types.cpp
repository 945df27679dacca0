// SPDX-License-Identifier: Apache-2.0
#include "communicator/mpi/mpi_types.hpp"

#include <array>

#include "communicator/host/reduce_elements.hpp"

namespace muster::detail {
namespace {

// An MPI_User_function: inout = in op inout. Each step is computed in binary32 and rounded once to 16 bits.
template <DataType type, Reduction op>
void reduce(void* in, void* inout, int* length, MPI_Datatype*) {
  const void* const operands[] = {in, inout};
  reduce_elements(inout, operands, static_cast<std::size_t>(*length), type, op, 1);
}

template <DataType type>
void create_ops(MPI_Op* ops) {
  MPI_Op_create(&reduce<type, Reduction::sum>, 1, &ops[0]);
  MPI_Op_create(&reduce<type, Reduction::min>, 1, &ops[1]);
  MPI_Op_create(&reduce<type, Reduction::max>, 1, &ops[2]);
  MPI_Op_create(&reduce<type, Reduction::product>, 1, &ops[3]);
}

// In the order of Reduction: sum, average, min, max, product.
constexpr std::array<std::size_t, 5> op_index{0, 0, 1, 2, 3};

}  // namespace

MpiTypes::MpiTypes() {
  MPI_Type_contiguous(2, MPI_BYTE, &two_bytes_);
  MPI_Type_commit(&two_bytes_);
  create_ops<DataType::bfloat16>(bfloat16_);
  create_ops<DataType::float16>(half_);
}

void MpiTypes::free() {
  MPI_Type_free(&two_bytes_);
  for (auto& op : bfloat16_) MPI_Op_free(&op);
  for (auto& op : half_) MPI_Op_free(&op);
}

MPI_Datatype MpiTypes::type(DataType type) const {
  if (size_of(type) == 2) return two_bytes_;
  // In the order of DataType.
  static MPI_Datatype const types[] = {MPI_FLOAT,   MPI_DOUBLE,  MPI_DATATYPE_NULL, MPI_DATATYPE_NULL,
                                       MPI_INT8_T,  MPI_UINT8_T, MPI_INT32_T,       MPI_UINT32_T,
                                       MPI_INT64_T, MPI_UINT64_T};
  return types[static_cast<std::size_t>(type)];
}

MPI_Op MpiTypes::op(DataType type, Reduction op) const {
  auto const index = op_index.at(static_cast<std::size_t>(op));
  if (type == DataType::bfloat16) return bfloat16_[index];
  if (type == DataType::float16) return half_[index];
  MPI_Op const built_in[4] = {MPI_SUM, MPI_MIN, MPI_MAX, MPI_PROD};
  return built_in[index];
}

}  // namespace muster::detail
