// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include "reducer/arithmetic.hpp"
#include "reducer/gpu_kernels.hpp"

namespace muster::detail {
namespace {

class GpuArithmetic : public Arithmetic {
 public:
  explicit GpuArithmetic(std::shared_ptr<CommStream> comm_stream) : comm_stream_(std::move(comm_stream)) {}

  Stream stream() const noexcept override { return comm_stream_->stream(); }
  void* allocate(std::size_t bytes) override { return bytes > 0 ? comm_stream_->allocate(bytes) : nullptr; }

  void copy(void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) comm_stream_->copy(to, from, bytes);
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
  // `arguments`: the kernel's arguments after the count, which is its first.
  template <typename... Arguments>
  void launch(GpuKernel kernel, std::size_t count, Arguments... arguments) {
    if (count == 0) return;
    std::array<void*, 1 + sizeof...(Arguments)> addresses{&count, &arguments...};
    constexpr std::array bytes{sizeof count, sizeof(Arguments)...};
    comm_stream_->launch(static_cast<std::size_t>(kernel), count, addresses.data(), bytes);
  }

  std::shared_ptr<CommStream> comm_stream_;
};

}  // namespace

std::unique_ptr<Arithmetic> make_gpu_arithmetic(std::shared_ptr<CommStream> comm_stream) {
  return std::make_unique<GpuArithmetic>(std::move(comm_stream));
}

}  // namespace muster::detail
