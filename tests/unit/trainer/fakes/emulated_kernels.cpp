// SPDX-License-Identifier: Apache-2.0
// The trainer's kernels for the fake CUDA: their own sources on the fake GPU.
#include <cstring>
#include <tuple>

#include "compute/cuda/kernels/kernels.cu"
#include "emulated_gpu.hpp"
#include "runtime/fakes/fake_kernels.hpp"

namespace {

using namespace muster::compute::cuda;

template <typename... Parameters, std::size_t... numbers>
auto copy_arguments(void (*)(Parameters...), void** arguments, std::index_sequence<numbers...>) {
  return std::tuple(*static_cast<std::remove_cv_t<Parameters>*>(arguments[numbers])...);
}

template <auto kernel>
struct FakeGpuKernel;
template <typename... Parameters, void (*kernel)(Parameters...)>
struct FakeGpuKernel<kernel> {
  static constexpr std::size_t parameter_bytes[] = {sizeof(Parameters)...};
  static std::function<void()> prepare(const FakeLaunch& launch, void** arguments) {
    const fake_gpu::Launch how{
        {launch.blocks[0], launch.blocks[1], launch.blocks[2]}, launch.threads, launch.shared_bytes};
    return [how, copies = copy_arguments(kernel, arguments, std::index_sequence_for<Parameters...>{})] {
      fake_gpu::launch(how, [&] { std::apply(kernel, copies); });
    };
  }
};

#define MUSTER_FAKE_KERNEL(name) \
  { #name, FakeGpuKernel < name> ::prepare, FakeGpuKernel < name> ::parameter_bytes }
constexpr FakeKernel trainer_kernels[] = {MUSTER_FAKE_KERNEL(muster_embed),
                                          MUSTER_FAKE_KERNEL(muster_embed_tokens_backward),
                                          MUSTER_FAKE_KERNEL(muster_embed_positions_backward),
                                          MUSTER_FAKE_KERNEL(muster_layer_norm),
                                          MUSTER_FAKE_KERNEL(muster_layer_norm_backward),
                                          MUSTER_FAKE_KERNEL(muster_rms_norm),
                                          MUSTER_FAKE_KERNEL(muster_rms_norm_backward),
                                          MUSTER_FAKE_KERNEL(muster_rotate_32),
                                          MUSTER_FAKE_KERNEL(muster_rotate_64),
                                          MUSTER_FAKE_KERNEL(muster_rotate_96),
                                          MUSTER_FAKE_KERNEL(muster_rotate_128),
                                          MUSTER_FAKE_KERNEL(muster_swiglu),
                                          MUSTER_FAKE_KERNEL(muster_swiglu_backward),
                                          MUSTER_FAKE_KERNEL(muster_column_parts),
                                          MUSTER_FAKE_KERNEL(muster_sum_parts),
                                          MUSTER_FAKE_KERNEL(muster_attention_32),
                                          MUSTER_FAKE_KERNEL(muster_attention_64),
                                          MUSTER_FAKE_KERNEL(muster_attention_96),
                                          MUSTER_FAKE_KERNEL(muster_attention_128),
                                          MUSTER_FAKE_KERNEL(muster_attention_queries_backward_32),
                                          MUSTER_FAKE_KERNEL(muster_attention_queries_backward_64),
                                          MUSTER_FAKE_KERNEL(muster_attention_queries_backward_96),
                                          MUSTER_FAKE_KERNEL(muster_attention_queries_backward_128),
                                          MUSTER_FAKE_KERNEL(muster_attention_keys_backward_32),
                                          MUSTER_FAKE_KERNEL(muster_attention_keys_backward_64),
                                          MUSTER_FAKE_KERNEL(muster_attention_keys_backward_96),
                                          MUSTER_FAKE_KERNEL(muster_attention_keys_backward_128),
                                          MUSTER_FAKE_KERNEL(muster_append_to_cache),
                                          MUSTER_FAKE_KERNEL(muster_cached_attention),
                                          MUSTER_FAKE_KERNEL(muster_cross_entropy),
                                          MUSTER_FAKE_KERNEL(muster_sum_losses),
                                          MUSTER_FAKE_KERNEL(muster_gelu),
                                          MUSTER_FAKE_KERNEL(muster_gelu_backward),
                                          MUSTER_FAKE_KERNEL(muster_round),
                                          MUSTER_FAKE_KERNEL(muster_accumulate),
                                          MUSTER_FAKE_KERNEL(muster_add_relu),
                                          MUSTER_FAKE_KERNEL(muster_add_relu_backward),
                                          MUSTER_FAKE_KERNEL(muster_scale_relu),
                                          MUSTER_FAKE_KERNEL(muster_scale_relu_backward),
                                          MUSTER_FAKE_KERNEL(muster_add_bias),
                                          MUSTER_FAKE_KERNEL(muster_channel_sums),
                                          MUSTER_FAKE_KERNEL(muster_transpose),
                                          MUSTER_FAKE_KERNEL(muster_transpose_to_float),
                                          MUSTER_FAKE_KERNEL(muster_copy_rows),
                                          MUSTER_FAKE_KERNEL(muster_max_pool),
                                          MUSTER_FAKE_KERNEL(muster_max_pool_backward),
                                          MUSTER_FAKE_KERNEL(muster_mean_pool),
                                          MUSTER_FAKE_KERNEL(muster_mean_pool_backward),
                                          MUSTER_FAKE_KERNEL(muster_shortcut),
                                          MUSTER_FAKE_KERNEL(muster_shortcut_backward),
                                          MUSTER_FAKE_KERNEL(muster_count_correct),
                                          MUSTER_FAKE_KERNEL(muster_norm_parts),
                                          MUSTER_FAKE_KERNEL(muster_norm_gradient_parts),
                                          MUSTER_FAKE_KERNEL(muster_norm_sums),
                                          MUSTER_FAKE_KERNEL(muster_norm_gradient_sums),
                                          MUSTER_FAKE_KERNEL(muster_norm_statistics),
                                          MUSTER_FAKE_KERNEL(muster_norm_backward),
                                          MUSTER_FAKE_KERNEL(muster_squares),
                                          MUSTER_FAKE_KERNEL(muster_sum_squares),
                                          MUSTER_FAKE_KERNEL(muster_find_not_finite),
                                          MUSTER_FAKE_KERNEL(muster_end_chunk),
                                          MUSTER_FAKE_KERNEL(muster_decide),
                                          MUSTER_FAKE_KERNEL(muster_adamw),
                                          MUSTER_FAKE_KERNEL(muster_sgd),
                                          MUSTER_FAKE_KERNEL(muster_move_statistics)};

}  // namespace

const FakeKernel* find_trainer_kernel(const char* name) {
  for (const FakeKernel& kernel : trainer_kernels) {
    if (std::strcmp(kernel.name, name) == 0) return &kernel;
  }
  return nullptr;
}
