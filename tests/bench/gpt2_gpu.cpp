// SPDX-License-Identifier: Apache-2.0
// GPT-2 training on one GPU: bench_gpt2_gpu [MODEL [BATCH [STEPS]]], by default gpt2-124M and 64 sequences of
// 1024 tokens. Runs whole steps like the trainer's (gradients, norm, decision, AdamW; the next step is
// enqueued before the host waits) on random tokens. Prints tokens/s and MFU of the median step, against a
// peak measured before and after; then the parts of a step, each by itself. Exit code 77 without a GPU.
// GPT2_GPU_AUTOTUNE=0: use cuBLASLt's first algorithms, not the fastest, as timed. GPT2_GPU_FUSE=0: do not
// use its epilogues.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "compute/cuda/cuda_compute.hpp"
#include "machine/measure_peak_flops.hpp"
#include "models/gpt.hpp"
#include "muster/error.hpp"
#include "muster/philox.hpp"
#include "optimizer/optimizer.hpp"

using namespace muster;
using compute::cuda::CudaCompute;
using models::GptConfig;

namespace {

double measure_seconds(const std::function<void()>& work, compute::Compute<bfloat16>& on) {
  on.wait();
  const auto from = std::chrono::steady_clock::now();
  work();
  on.wait();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

std::vector<compute::Token> random_tokens(std::size_t count, int vocabulary, std::uint64_t stream) {
  std::vector<compute::Token> tokens(count);
  for (std::size_t i = 0; i < count; ++i)
    tokens[i] =
        static_cast<compute::Token>(uniform_bits(1, stream, i) % static_cast<std::uint64_t>(vocabulary));
  return tokens;
}

/// A model with its optimizer, and steps like those of a single Replica.
class Training {
 public:
  Training(const GptConfig& config, int batch, CudaCompute& on)
      : on_(on),
        gpt_(config, batch, on, compute::reduced_scalar_count),
        adamw_(gpt_.tensors().table(), {}, on),
        batch_(batch),
        tokens_(random_tokens(rows() + 1, config.vocabulary, 1)) {
    gpt_.tensors().initialize(1);
    gpt_.tensors().round_parameters(on);
  }
  std::size_t rows() const {
    return static_cast<std::size_t>(batch_) * static_cast<std::size_t>(gpt_.config().context);
  }
  void begin_step() {
    auto& tensors = gpt_.tensors();
    const auto parts = tensors.extra_and_gradients();
    on_.begin_step(1);
    gpt_.gradients(
        tokens_.data(), tokens_.data() + 1, batch_, gpt_.config().context, 1.0f / static_cast<float>(rows()),
        [&](std::size_t tensor) { on_.check_finite(parts[tensor + 1].data(), parts[tensor + 1].size()); });
    on_.end_chunk(0, 1.0 / static_cast<double>(rows()), false, false, parts[0].data());
    const auto gradients = tensors.gradients();
    const auto norm = on_.decide(parts[0].data(), gradients.data(), gradients.size(), 1.0);
    adamw_.update(tensors.parameters(), gradients, norm.value_or(0), 1e-4, steps_++, tensors.rounded());
    on_.end_step();
  }

 private:
  CudaCompute& on_;
  models::Gpt<bfloat16> gpt_;
  Adamw<float> adamw_;
  int batch_;
  std::vector<compute::Token> tokens_;
  std::int64_t steps_ = 0;
};

void print_part(const char* part, double seconds, int times, double flops, double step) {
  std::printf("  %-34s %8.3f ms x %3d  %5.1f%% of a step", part, 1e3 * seconds, times,
              100 * seconds * times / step);
  if (flops > 0) std::printf("  %6.1f TFLOP/s", flops / seconds / 1e12);
  std::printf("\n");
}

/// Fills memory with normal numbers, as a model has them: a GPU that multiplies zeros needs less power, and
/// power limits its clock. The numbers repeat after some millions.
template <typename Real>
void fill(compute::Arena<Real>& to, std::size_t count, float deviation, CudaCompute& on) {
  std::vector<Real> numbers(std::min(count, std::size_t{4} << 20));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = Real(deviation * static_cast<float>(normal(3, 0, i)));
  for (std::size_t at = 0; at < count; at += numbers.size())
    on.gpu().copy_in(to.data() + at, numbers.data(), std::min(numbers.size(), count - at) * sizeof(Real));
}

/// Times the operations of one layer and of the model's ends, on buffers of their own.
void time_parts(const GptConfig& c, int batch, CudaCompute& on, double step) {
  const int rows = batch * c.context, w = c.width, v = on.padded_classes(c.vocabulary);
  const auto area = [](int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); };
  compute::Arena<bfloat16> x(area(rows, w), on.gpu()), y(area(rows, w), on.gpu()), z(area(rows, w), on.gpu()),
      wide(area(rows, 4 * w), on.gpu()), wide2(area(rows, 4 * w), on.gpu()), weight(area(v, w), on.gpu()),
      logits(area(rows, v), on.gpu());
  compute::Arena<float> gradient(area(v, w), on.gpu()), sums(area(rows, c.heads + 2), on.gpu());
  for (compute::Arena<bfloat16>* const activation : {&x, &y, &z}) fill(*activation, area(rows, w), 1, on);
  for (compute::Arena<bfloat16>* const activation : {&wide, &wide2})
    fill(*activation, area(rows, 4 * w), 1, on);
  fill(weight, area(v, w), 0.02f, on);
  fill(logits, area(rows, v), 1, on);
  fill(gradient, area(v, w), 1, on);
  const auto tokens = random_tokens(area(rows, 1), c.vocabulary, 2);
  const compute::AttentionShape shape{batch, c.context, c.heads, w};
  const double product = 2.0 * rows * w * w, attention = 2.0 * rows * w * c.context;  // causal: half of 4
  const auto part = [&](const char* name, int times, double flops, const std::function<void()>& work) {
    work();
    constexpr int runs = 5;
    const double all = measure_seconds(
        [&] {
          for (int i = 0; i < runs; ++i) work();
        },
        on);
    print_part(name, all / runs, times, flops, step);
  };
  const int layers = c.layers;
  part("attention", layers, attention, [&] { on.attention(shape, wide.data(), x.data(), sums.data()); });
  part("attention backward", layers, 2.5 * attention,
       [&] { on.attention_backward(shape, wide.data(), x.data(), sums.data(), y.data(), wide2.data()); });
  part("product, width to 3 width, bias", layers, 3 * product, [&] {
    on.matmul({rows, 3 * w, w, false, true, true, false}, x.data(), weight.data(), weight.data(),
              wide.data());
  });
  part("product with GELU", layers, 4 * product, [&] {
    on.matmul_gelu(rows, w, 4 * w, x.data(), weight.data(), weight.data(), wide.data(), wide2.data());
  });
  part("product with GELU backward", layers, 4 * product,
       [&] { on.matmul_gelu_backward(rows, 4 * w, w, x.data(), weight.data(), wide.data(), wide2.data()); });
  part("weight and bias gradient, MLP", 2 * layers, 4 * product,
       [&] { on.weight_gradient(rows, w, 4 * w, x.data(), wide.data(), gradient.data(), sums.data()); });
  part("LayerNorm with sum", 2 * layers + 1, 0, [&] {
    on.layer_norm(x.data(), y.data(), z.data(), weight.data(), weight.data(), y.data(), sums.data(),
                  sums.data() + rows, rows, w);
  });
  part("LayerNorm backward", 2 * layers + 1, 0, [&] {
    on.layer_norm_backward(x.data(), weight.data(), sums.data(), sums.data() + rows, y.data(), z.data(),
                           gradient.data(), gradient.data() + w, rows, w);
  });
  part("product to logits", 1, 2.0 * rows * w * v, [&] {
    on.matmul({rows, v, w, false, true, false, false}, x.data(), weight.data(), nullptr, logits.data());
  });
  part("classifier", 1, 0,
       [&] { on.compute_cross_entropy(logits.data(), tokens.data(), rows, c.vocabulary, 1e-5f); });
  part("embedding backward", 1, 0, [&] {
    on.embed_backward(tokens.data(), x.data(), gradient.data(), gradient.data(), batch, c.context, c.context,
                      w);
  });
}

void bench(const std::string& name, int batch, int steps) {
  const auto config = models::gpt_preset(name);
  if (!config)
    throw Error(ErrorCode::usage, name + " is no model: gpt2-124M, gpt2-350M, gpt2-774M or gpt2-1558M");
  const auto is_on = [](const char* variable) {
    const char* const value = std::getenv(variable);
    return value == nullptr || *value != '0';
  };
  CudaCompute on({.fuse = is_on("GPT2_GPU_FUSE")});
  on.autotuner()->set_timing(is_on("GPT2_GPU_AUTOTUNE"));
  const double peak_before = measure_peak_flops(on);
  double median = 0;
  {
    Training training(*config, batch, on);
    double loss = 0;
    std::vector<double> seconds;
    training.begin_step();
    auto ended = std::chrono::steady_clock::now();
    for (int i = -3; i < steps; ++i) {  // the first ones warm up
      if (i + 1 < steps) training.begin_step();
      loss = on.outcome().loss;
      const auto from = std::exchange(ended, std::chrono::steady_clock::now());
      if (i >= 0) seconds.push_back(std::chrono::duration<double>(ended - from).count());
    }
    std::nth_element(seconds.begin(), seconds.begin() + steps / 2, seconds.end());
    median = seconds[static_cast<std::size_t>(steps / 2)];
    const double rate = static_cast<double>(training.rows()) / median;
    const double peak = std::max(peak_before, measure_peak_flops(on));
    std::printf(
        "%s on %s\n%d sequences of %d tokens, %d steps: %.2f ms, %.0f tokens/s, MFU %.1f%% of %.0f TFLOP/s "
        "measured, "
        "last loss %.3f, %.1f GiB\n",
        name.c_str(), on.describe().c_str(), batch, config->context, steps, 1e3 * median, rate,
        100 * rate * models::gpt_flops_per_token(*config) / peak, peak / 1e12, loss,
        static_cast<double>(on.gpu().peak_allocated()) / 0x1p30);
    time_parts(*config, batch, on, median);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    bench(argc > 1 ? argv[1] : "gpt2-124M", argc > 2 ? std::atoi(argv[2]) : 64,
          argc > 3 ? std::atoi(argv[3]) : 20);
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return error.code() == ErrorCode::device && argc < 2 ? 77 : error.exit_code();
  }
}
