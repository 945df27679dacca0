// SPDX-License-Identifier: Apache-2.0
#include "communicator/mpi_types.hpp"

#include <algorithm>

#include "half_bits.hpp"

namespace muster::detail {
namespace {

struct BfloatFormat {
  static float value(std::uint16_t bits) { return bfloat16_value(bits); }
  static std::uint16_t bits(float value) { return bfloat16_bits(value); }
};
struct HalfFormat {
  static float value(std::uint16_t bits) { return half_value(bits); }
  static std::uint16_t bits(float value) { return half_bits(value); }
};
struct Sum {
  static float of(float a, float b) { return a + b; }
};
struct Product {
  static float of(float a, float b) { return a * b; }
};
struct Min {
  static float of(float a, float b) { return b < a ? b : a; }
};
struct Max {
  static float of(float a, float b) { return a < b ? b : a; }
};

// An MPI_User_function: inout = in op inout. Each step is exact in float and rounded once to 16 bits.
template <typename Format, typename Operation>
void reduce(void* in, void* inout, int* length, MPI_Datatype*) {
  auto const* const from = static_cast<const std::uint16_t*>(in);
  auto* const to = static_cast<std::uint16_t*>(inout);
  for (int i = 0; i < *length; ++i)
    to[i] = Format::bits(Operation::of(Format::value(from[i]), Format::value(to[i])));
}

template <typename Format>
void create_ops(MPI_Op* ops) {
  MPI_Op_create(&reduce<Format, Sum>, 1, &ops[0]);
  MPI_Op_create(&reduce<Format, Min>, 1, &ops[1]);
  MPI_Op_create(&reduce<Format, Max>, 1, &ops[2]);
  MPI_Op_create(&reduce<Format, Product>, 1, &ops[3]);
}

std::size_t index_of(Reduction op) {
  switch (op) {
    case Reduction::sum:
    case Reduction::average:
      return 0;
    case Reduction::min:
      return 1;
    case Reduction::max:
      return 2;
    case Reduction::product:
      return 3;
  }
  return 0;
}

template <typename T>
void divide_as(void* buffer, std::size_t count, T divisor) {
  auto* const values = static_cast<T*>(buffer);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(values[i] / divisor);
}

template <typename Format>
void divide_16(void* buffer, std::size_t count, float divisor) {
  auto* const values = static_cast<std::uint16_t*>(buffer);
  for (std::size_t i = 0; i < count; ++i) values[i] = Format::bits(Format::value(values[i]) / divisor);
}

// An 8-bit integer may be too narrow for the number of ranks itself.
template <typename T>
void divide_8(void* buffer, std::size_t count, int divisor) {
  auto* const values = static_cast<T*>(buffer);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(int{values[i]} / divisor);
}

}  // namespace

MpiTypes::MpiTypes() {
  MPI_Type_contiguous(2, MPI_BYTE, &two_bytes_);
  MPI_Type_commit(&two_bytes_);
  create_ops<BfloatFormat>(bfloat16_);
  create_ops<HalfFormat>(half_);
}

void MpiTypes::free() {
  MPI_Type_free(&two_bytes_);
  for (auto& op : bfloat16_) MPI_Op_free(&op);
  for (auto& op : half_) MPI_Op_free(&op);
}

MPI_Datatype MpiTypes::type(DataType type) const {
  switch (type) {
    case DataType::float32:
      return MPI_FLOAT;
    case DataType::float64:
      return MPI_DOUBLE;
    case DataType::bfloat16:
    case DataType::float16:
      return two_bytes_;
    case DataType::int8:
      return MPI_INT8_T;
    case DataType::uint8:
      return MPI_UINT8_T;
    case DataType::int32:
      return MPI_INT32_T;
    case DataType::uint32:
      return MPI_UINT32_T;
    case DataType::int64:
      return MPI_INT64_T;
    case DataType::uint64:
      return MPI_UINT64_T;
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op MpiTypes::op(DataType type, Reduction op) const {
  auto const index = index_of(op);
  if (type == DataType::bfloat16) return bfloat16_[index];
  if (type == DataType::float16) return half_[index];
  MPI_Op const built_in[4] = {MPI_SUM, MPI_MIN, MPI_MAX, MPI_PROD};
  return built_in[index];
}

void divide(void* buffer, std::size_t count, DataType type, int ranks) {
  switch (type) {
    case DataType::float32:
      return divide_as<float>(buffer, count, static_cast<float>(ranks));
    case DataType::float64:
      return divide_as<double>(buffer, count, ranks);
    case DataType::bfloat16:
      return divide_16<BfloatFormat>(buffer, count, static_cast<float>(ranks));
    case DataType::float16:
      return divide_16<HalfFormat>(buffer, count, static_cast<float>(ranks));
    case DataType::int8:
      return divide_8<std::int8_t>(buffer, count, ranks);
    case DataType::uint8:
      return divide_8<std::uint8_t>(buffer, count, ranks);
    case DataType::int32:
      return divide_as<std::int32_t>(buffer, count, ranks);
    case DataType::uint32:
      return divide_as<std::uint32_t>(buffer, count, static_cast<std::uint32_t>(ranks));
    case DataType::int64:
      return divide_as<std::int64_t>(buffer, count, ranks);
    case DataType::uint64:
      return divide_as<std::uint64_t>(buffer, count, static_cast<std::uint64_t>(ranks));
  }
}

}  // namespace muster::detail
