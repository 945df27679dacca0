// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <vector>

#include "reducer/arithmetic.hpp"
#include "reducer/element_ops.hpp"

namespace muster::detail {
namespace {

class HostArithmetic : public Arithmetic {
 public:
  Stream stream() const noexcept override { return nullptr; }
  float* floats(std::size_t count) override { return floats_.emplace_back(new float[count]()).get(); }
  std::uint16_t* bfloat16s(std::size_t count) override {
    return bfloat16s_.emplace_back(new std::uint16_t[count]()).get();
  }

  void copy(float* to, const float* from, std::size_t count) override { std::copy_n(from, count, to); }
  void add(float* to, const float* from, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) add_element(to, from, i);
  }
  void divide(float* values, float divisor, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) divide_element(values, divisor, i);
  }
  void narrow(std::uint16_t* to, const float* from, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) narrow_element(to, from, i);
  }
  void widen(float* to, const std::uint16_t* from, std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) widen_element(to, from, i);
  }

  // sum_shards_element() for every element, but shard by shard, which the compiler can vectorize.
  void sum_shards(std::uint16_t* to, const std::uint16_t* from, std::size_t shards, std::size_t count,
                  float divisor) override {
    std::array<float, 2048> sum;
    for (std::size_t begin = 0; begin < count; begin += sum.size()) {
      auto const length = std::min(sum.size(), count - begin);
      widen(sum.data(), from + begin, length);
      for (std::size_t r = 1; r < shards; ++r) {
        const std::uint16_t* const shard = from + r * count + begin;
        for (std::size_t i = 0; i < length; ++i) sum[i] += bfloat16_value(shard[i]);
      }
      for (std::size_t i = 0; i < length; ++i) to[begin + i] = bfloat16_bits(sum[i] / divisor);
    }
  }

 private:
  std::vector<std::unique_ptr<float[]>> floats_;
  std::vector<std::unique_ptr<std::uint16_t[]>> bfloat16s_;
};

}  // namespace

std::unique_ptr<Arithmetic> make_host_arithmetic() { return std::make_unique<HostArithmetic>(); }

}  // namespace muster::detail
