// SPDX-License-Identifier: Apache-2.0
#include "gpt2_gpu_parts.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "muster/philox.hpp"
#include "optimizer/optimizer.hpp"

using namespace muster;
using compute::Arena;
using compute::cuda::CudaCompute;
using models::GptConfig;

namespace {

std::size_t area(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

/// Times one operation after the other, and prints each at once.
class Parts {
 public:
  Parts(CudaCompute& on, double step_seconds, const Peaks& peaks)
      : on_(on), step_seconds_(step_seconds), peaks_(peaks) {}

  /// `times`: how often it occurs in a step. `flops`: of its products. `bytes`: the least that it must move.
  void time(const char* name, int times, double flops, double bytes, const std::function<void()>& work) {
    constexpr int runs = 5;
    const double seconds = measure_seconds(on_, runs, work);
    const double roofline = peaks_.roofline_seconds(flops, bytes);
    std::printf("  %-34s %8.3f ms x %3d  %5.1f%% of a step  %6.1f TFLOP/s  %7.1f GB/s  %5.1f%% of roofline\n",
                name, 1e3 * seconds, times, 100 * seconds * times / step_seconds_, flops / seconds / 1e12,
                bytes / seconds / 1e9, 100 * roofline / seconds);
  }

 private:
  CudaCompute& on_;
  double step_seconds_;
  Peaks peaks_;
};

/// The memory of one layer and of the model's ends.
struct Buffers {
  Buffers(const GptConfig& c, int batch, CudaCompute& on)
      : rows(batch * c.context),
        w(c.width),
        v(on.padded_classes(c.vocabulary)),
        x(area(rows, w), on.gpu()),
        y(area(rows, w), on.gpu()),
        z(area(rows, w), on.gpu()),
        residual(area(rows, w), on.gpu()),
        d_residual(area(rows, w), on.gpu()),
        wide(area(rows, 4 * w), on.gpu()),
        wide2(area(rows, 4 * w), on.gpu()),
        weight(area(v, w), on.gpu()),
        logits(area(rows, v), on.gpu()),
        gradient(area(std::max(v, 4 * w), w), on.gpu()),
        sums(std::max(area(rows, c.heads + 2), area(4, w)), on.gpu()) {
    for (Arena<bfloat16>* const activation : {&x, &y, &z}) fill(*activation, area(rows, w), 1, on);
    for (Arena<float>* const stream : {&residual, &d_residual}) fill(*stream, area(rows, w), 1, on);
    for (Arena<bfloat16>* const activation : {&wide, &wide2}) fill(*activation, area(rows, 4 * w), 1, on);
    fill(weight, area(v, w), 0.02f, on);
    fill(logits, area(rows, v), 1, on);
  }
  int rows, w, v;
  Arena<bfloat16> x, y, z;
  Arena<float> residual, d_residual;
  Arena<bfloat16> wide, wide2, weight, logits;
  Arena<float> gradient, sums;
};

void time_layer(const GptConfig& c, int batch, CudaCompute& on, Buffers& b, Parts& parts) {
  const auto& [rows, w, v, x, y, z, residual, d_residual, wide, wide2, weight, logits, gradient, sums] = b;
  const compute::AttentionShape shape{batch, c.context, c.heads, w};
  const double area_of_rows = static_cast<double>(rows) * w, square = static_cast<double>(w) * w;
  const double product = 2 * area_of_rows * w, attention = 2 * area_of_rows * c.context;  // causal: half of 4
  const int layers = c.layers;
  parts.time("attention", layers, attention, 8 * area_of_rows,
             [&] { on.attention(shape, b.wide.data(), b.x.data(), b.sums.data()); });
  parts.time("attention backward", layers, 2.5 * attention, 16 * area_of_rows, [&] {
    on.attention_backward(shape, b.wide.data(), b.x.data(), b.sums.data(), b.y.data(), b.wide2.data());
  });
  parts.time("product, width to 3 width, bias", layers, 3 * product, 8 * area_of_rows + 6 * square, [&] {
    on.matmul({rows, 3 * w, w, false, true, true, false}, b.x.data(), b.weight.data(), b.weight.data(),
              b.wide.data());
  });
  parts.time("product with GELU", layers, 4 * product, 18 * area_of_rows + 8 * square, [&] {
    on.matmul_gelu(rows, w, 4 * w, b.x.data(), b.weight.data(), b.weight.data(), b.wide.data(),
                   b.wide2.data());
  });
  parts.time("product with GELU backward", layers, 4 * product, 18 * area_of_rows + 8 * square, [&] {
    on.matmul_gelu_backward(rows, 4 * w, w, b.x.data(), b.weight.data(), b.wide.data(), b.wide2.data());
  });
  parts.time("weight and bias gradient, MLP", 2 * layers, 4 * product, 10 * area_of_rows + 16 * square, [&] {
    on.weight_gradient(rows, w, 4 * w, b.x.data(), b.wide.data(), b.gradient.data(), b.sums.data());
  });
  parts.time("LayerNorm with sum", 2 * layers + 1, 0, 12 * area_of_rows, [&] {
    on.layer_norm(b.residual.data(), b.y.data(), b.d_residual.data(), b.weight.data(), b.weight.data(),
                  b.y.data(), b.sums.data(), b.sums.data() + rows, rows, w);
  });
  parts.time("LayerNorm backward", 2 * layers + 1, 0, 16 * area_of_rows, [&] {
    on.layer_norm_backward(b.residual.data(), b.weight.data(), b.sums.data(), b.sums.data() + rows,
                           b.y.data(), b.d_residual.data(), b.z.data(), b.gradient.data(),
                           b.gradient.data() + w, rows, w);
  });
}

void time_ends(const GptConfig& c, int batch, CudaCompute& on, Buffers& b, Parts& parts) {
  const double rows = b.rows, w = b.w, v = b.v;
  parts.time("product to logits", 1, 2 * rows * w * v, 2 * (rows * w + v * w + rows * v), [&] {
    on.matmul({b.rows, b.v, b.w, false, true, false, false}, b.x.data(), b.weight.data(), nullptr,
              b.logits.data());
  });
  std::vector<compute::Token> tokens(area(b.rows, 1));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<compute::Token>(uniform_bits(1, 2, i) % static_cast<std::uint64_t>(c.vocabulary));
  parts.time("classifier", 1, 0, 4 * rows * v,
             [&] { on.compute_cross_entropy(b.logits.data(), tokens.data(), b.rows, c.vocabulary, 1e-5f); });
  parts.time("embedding backward", 1, 0, 4 * rows * w + 4 * std::min(rows, v) * w, [&] {
    on.embed_backward(tokens.data(), b.residual.data(), b.gradient.data(), b.gradient.data(), batch,
                      c.context, c.context, b.w);
  });
}

void time_update(const GptConfig& c, CudaCompute& on, Parts& parts) {
  const models::TensorTable table = models::gpt_tensors(c);
  const std::size_t count = table.arena_size;
  Arena<float> parameters(count, on.gpu()), gradients(count, on.gpu());
  Arena<bfloat16> rounded(count, on.gpu());
  fill(parameters, count, 0.02f, on);
  fill(gradients, count, 1e-3f, on);
  Optimizer<float> adamw(table, {}, on);
  std::int64_t step = 0;
  // Reads and writes parameter and moments, reads the gradient, writes the rounded parameter.
  parts.time("AdamW", 1, 0, 30.0 * static_cast<double>(count),
             [&] { adamw.update(parameters.span(), gradients.span(), 1, 1e-4, step++, rounded.span()); });
}

}  // namespace

void time_parts(const GptConfig& config, int batch, CudaCompute& on, double step_seconds,
                const Peaks& peaks) {
  Parts parts(on, step_seconds, peaks);
  std::printf("  peaks, measured: %.0f TFLOP/s, %.0f GB/s read and written in a copy\n", peaks.flops / 1e12,
              peaks.bandwidth / 1e9);
  {
    Buffers buffers(config, batch, on);
    time_layer(config, batch, on, buffers, parts);
    time_ends(config, batch, on, buffers, parts);
  }
  time_update(config, on, parts);
}
