// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/premul_sum.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "communicator/host/float16_convert.hpp"
#include "communicator/premul_scalar.hpp"

namespace muster::detail {
namespace {

template <typename T>
T factor_as(double factor, DataType type) {
  T value;
  std::memcpy(&value, premul_scalar(factor, type).data(), sizeof value);
  return value;
}

template <typename T>
void multiply(const void* from, void* to, std::size_t count, T factor) {
  const auto* const in = static_cast<const T*>(from);
  auto* const out = static_cast<T*>(to);
  for (std::size_t i = 0; i < count; ++i) out[i] = in[i] * factor;
}

// The product of two 16-bit floats is exact in binary32, so it is rounded once.
template <typename Widen, typename Narrow>
void multiply_narrow(const void* from, void* to, std::size_t count, float factor, Widen widen,
                     Narrow narrow) {
  const auto* const in = static_cast<const std::uint16_t*>(from);
  auto* const out = static_cast<std::uint16_t*>(to);
  std::array<float, 512> block;
  std::array<float, 512> products;
  for (std::size_t at = 0; at < count; at += block.size()) {
    auto const length = std::min(block.size(), count - at);
    widen(in + at, block.data(), length);
    multiply(block.data(), products.data(), length, factor);
    narrow(products.data(), out + at, length);
  }
}

void multiply(const void* from, void* to, std::size_t count, DataType type, double factor) {
  switch (type) {
    case DataType::float64:
      return multiply(from, to, count, factor);
    case DataType::bfloat16:
      return multiply_narrow(from, to, count, static_cast<float>(factor_as<bfloat16>(factor, type)),
                             bfloat16_to_float, float_to_bfloat16);
    case DataType::float16:
      return multiply_narrow(from, to, count, static_cast<float>(factor_as<half>(factor, type)),
                             half_to_float, float_to_half);
    default:
      return multiply(from, to, count, factor_as<float>(factor, type));
  }
}

}  // namespace

PremulSum::PremulSum(const CollectiveCall& call, int rank, std::size_t ranks) : call_(call) {
  if (!call.factor) return;
  auto const count = call.in_count(ranks);
  bool const fits =
      call.kind == OperationKind::all_reduce || (call.kind == OperationKind::reduce && call.peer == rank);
  if (!fits) products_ = std::make_unique_for_overwrite<std::byte[]>(count * size_of(call.type));
  void* const products = fits ? call.out : products_.get();
  multiply(call.in, products, count, call.type, *call.factor);
  call_.in = products;
  if (call.kind == OperationKind::reduce) call_.out = products;
  call_.factor.reset();
}

PremulSum::~PremulSum() {
  if (std::uncaught_exceptions() > unwinding_) (void)products_.release();
}

}  // namespace muster::detail
