// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <vector>

#include "communicator/host/float16_convert.hpp"
#include "communicator/host/reduce_elements.hpp"
#include "reducer/arithmetic.hpp"
#include "reducer/element_ops.hpp"

namespace muster::detail {
namespace {

class HostArithmetic : public Arithmetic {
 public:
  Stream stream() const noexcept override { return nullptr; }
  void* allocate(std::size_t bytes) override {
    return memory_.emplace_back(std::make_unique<std::byte[]>(bytes)).get();
  }

  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void add(float* to, const float* from, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) add_element(to, from, i);
  }
  void divide(float* values, float divisor, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) divide_element(values, divisor, i);
  }
  void narrow(std::uint16_t* to, const float* from, std::size_t count) override {
    float_to_bfloat16(from, to, count);
  }
  void widen(float* to, const std::uint16_t* from, std::size_t count) override {
    bfloat16_to_float(from, to, count);
  }

  // The bits of sum_shards_element().
  void sum_shards(std::uint16_t* to, const std::uint16_t* from, std::size_t shards, std::size_t count,
                  float divisor) override {
    std::vector<const void*> operands;
    for (std::size_t r = 0; r < shards; ++r) operands.push_back(from + r * count);
    reduce_elements(to, operands, count, DataType::bfloat16, Reduction::average, static_cast<int>(divisor));
  }

 private:
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

}  // namespace

std::unique_ptr<Arithmetic> make_host_arithmetic() { return std::make_unique<HostArithmetic>(); }

}  // namespace muster::detail
