// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include "reducer/arithmetic.hpp"
#include "reducer/gpu_kernels.hpp"

namespace muster::detail {
namespace {

class GpuArithmetic : public Arithmetic {
 public:
  explicit GpuArithmetic(std::shared_ptr<CommStream> lane) : lane_(std::move(lane)) {}

  Stream stream() const noexcept override { return lane_->stream(); }
  float* floats(std::size_t count) override { return memory<float>(count); }
  std::uint16_t* bfloat16s(std::size_t count) override { return memory<std::uint16_t>(count); }

  void copy(float* to, const float* from, std::size_t count) override {
    if (count > 0) lane_->copy(to, from, count * sizeof(float));
  }
  void add(float* to, const float* from, std::size_t count) override {
    launch(GpuKernel::add, count, to, from);
  }
  void divide(float* values, float divisor, std::size_t count) override {
    launch(GpuKernel::divide, count, values, divisor);
  }
  void narrow(std::uint16_t* to, const float* from, std::size_t count) override {
    launch(GpuKernel::narrow, count, to, from);
  }
  void widen(float* to, const std::uint16_t* from, std::size_t count) override {
    launch(GpuKernel::widen, count, to, from);
  }
  void sum_shards(std::uint16_t* to, const std::uint16_t* from, std::size_t shards, std::size_t count,
                  float divisor) override {
    launch(GpuKernel::sum_shards, count, to, from, shards, divisor);
  }

 private:
  template <typename T>
  T* memory(std::size_t count) {
    return count > 0 ? static_cast<T*>(lane_->allocate(count * sizeof(T))) : nullptr;
  }

  // `arguments`: of the kernel, which takes the count before them.
  template <typename... Arguments>
  void launch(GpuKernel kernel, std::size_t count, Arguments... arguments) {
    if (count == 0) return;
    std::array<void*, 1 + sizeof...(Arguments)> addresses{&count, &arguments...};
    lane_->launch(static_cast<std::size_t>(kernel), count, addresses.data());
  }

  std::shared_ptr<CommStream> lane_;
};

}  // namespace

std::unique_ptr<Arithmetic> make_gpu_arithmetic(std::shared_ptr<CommStream> lane) {
  return std::make_unique<GpuArithmetic>(std::move(lane));
}

}  // namespace muster::detail
