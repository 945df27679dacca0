// SPDX-License-Identifier: Apache-2.0
// The trainer's kernels for the test double of CUDA: their own sources on the double of a GPU.
#include <cstring>
#include <tuple>

#include "compute/cuda/kernels.cu"
#include "emulated_gpu.hpp"
#include "fake_kernels.hpp"

namespace {

using namespace muster::compute::cuda;

template <typename... Parameters, std::size_t... numbers>
auto copies_of(void (*)(Parameters...), void** arguments, std::index_sequence<numbers...>) {
  return std::tuple(*static_cast<std::remove_cv_t<Parameters>*>(arguments[numbers])...);
}

template <auto kernel>
struct Emulated;
template <typename... Parameters, void (*kernel)(Parameters...)>
struct Emulated<kernel> {
  static std::function<void()> prepare(const FakeLaunch& launch, void** arguments) {
    const emulated::Launch how{
        {launch.blocks[0], launch.blocks[1], launch.blocks[2]}, launch.threads, launch.shared_bytes};
    return [how, copies = copies_of(kernel, arguments, std::index_sequence_for<Parameters...>{})] {
      emulated::launch(how, [&] { std::apply(kernel, copies); });
    };
  }
};

#define MUSTER_EMULATED(name) \
  { #name, Emulated < name> ::prepare }
constexpr FakeKernel trainer_kernels[] = {MUSTER_EMULATED(muster_embed),
                                          MUSTER_EMULATED(muster_embed_tokens_backward),
                                          MUSTER_EMULATED(muster_embed_positions_backward),
                                          MUSTER_EMULATED(muster_layer_norm),
                                          MUSTER_EMULATED(muster_layer_norm_backward),
                                          MUSTER_EMULATED(muster_column_parts),
                                          MUSTER_EMULATED(muster_sum_parts),
                                          MUSTER_EMULATED(muster_attention),
                                          MUSTER_EMULATED(muster_attention_queries_backward),
                                          MUSTER_EMULATED(muster_attention_keys_backward),
                                          MUSTER_EMULATED(muster_cross_entropy),
                                          MUSTER_EMULATED(muster_sum_losses),
                                          MUSTER_EMULATED(muster_gelu),
                                          MUSTER_EMULATED(muster_gelu_backward),
                                          MUSTER_EMULATED(muster_round),
                                          MUSTER_EMULATED(muster_squares),
                                          MUSTER_EMULATED(muster_sum_squares),
                                          MUSTER_EMULATED(muster_find_not_finite),
                                          MUSTER_EMULATED(muster_end_chunk),
                                          MUSTER_EMULATED(muster_decide),
                                          MUSTER_EMULATED(muster_adamw)};

}  // namespace

const FakeKernel* find_more_kernels(const char* name) {
  for (const FakeKernel& kernel : trainer_kernels) {
    if (std::strcmp(kernel.name, name) == 0) return &kernel;
  }
  return nullptr;
}
