// SPDX-License-Identifier: Apache-2.0
#include "fake_kernels.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "reducer/element_ops.hpp"

using namespace muster::detail;

namespace {

// Calls `use` for each element, with its index, the count, and the kernel's arguments after the count.
template <auto use>
struct ForEach;
template <typename... Arguments, void (*use)(std::size_t, std::size_t, Arguments...)>
struct ForEach<use> {
  static constexpr std::size_t parameter_bytes[] = {sizeof(std::size_t), sizeof(Arguments)...};
  static std::function<void()> prepare(const FakeLaunch&, void** arguments) {
    return prepare_numbered(arguments, std::index_sequence_for<Arguments...>{});
  }
  template <std::size_t... numbers>
  static std::function<void()> prepare_numbered(void** arguments, std::index_sequence<numbers...>) {
    auto const count = *static_cast<std::size_t*>(arguments[0]);
    return [count, ... copies = *static_cast<Arguments*>(arguments[numbers + 1])] {
      for (std::size_t i = 0; i < count; ++i) use(i, count, copies...);
    };
  }
};

void add(std::size_t i, std::size_t, float* to, const float* from) { add_element(to, from, i); }
void divide(std::size_t i, std::size_t, float* values, float divisor) { divide_element(values, divisor, i); }
void narrow(std::size_t i, std::size_t, std::uint16_t* to, const float* from) { narrow_element(to, from, i); }
void widen(std::size_t i, std::size_t, float* to, const std::uint16_t* from) { widen_element(to, from, i); }
void sum_shards(std::size_t i, std::size_t count, std::uint16_t* to, const std::uint16_t* from,
                std::size_t shards, float divisor) {
  sum_shards_element(to, from, shards, count, divisor, i);
}

template <auto use>
constexpr FakeKernel make_kernel(const char* name) {
  return {name, ForEach<use>::prepare, ForEach<use>::parameter_bytes};
}
constexpr FakeKernel kernels[] = {make_kernel<add>("muster_add"), make_kernel<divide>("muster_divide"),
                                  make_kernel<narrow>("muster_narrow"), make_kernel<widen>("muster_widen"),
                                  make_kernel<sum_shards>("muster_sum_shards")};

}  // namespace

const FakeKernel* find_fake_kernel(const char* name) {
  for (const auto& kernel : kernels)
    if (std::strcmp(kernel.name, name) == 0) return &kernel;
  return find_trainer_kernel(name);
}

[[gnu::weak]] const FakeKernel* find_trainer_kernel(const char*) { return nullptr; }
