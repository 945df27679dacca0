// SPDX-License-Identifier: Apache-2.0
#include "compute/cpu/cpu_compute.hpp"

#include <omp.h>

#include <algorithm>
#include <type_traits>

#include "compute/cpu/flush_denormals.hpp"
#include "compute/cpu/parallel_for.hpp"

namespace muster::compute::cpu {
namespace {

/// Rows whose sums are formed together. Fixed, so that results do not depend on the number of threads.
constexpr int chunk_rows = 64;

/// Rows of b packed at a time: a panel of 512 * 32 floats fits a level-1 or level-2 cache.
constexpr int depth = 512;

/// Sets columns [first, first + columns) of c to the value that the first product is added to.
template <typename Real>
void begin_panel(const MatmulShape& s, const Real* bias, Accurate<Real>* c, int first, int columns) {
  using Sum = Accurate<Real>;
  for (int i = 0; i < s.m; ++i) {
    Sum* row = c + std::ptrdiff_t{i} * s.n + first;
    for (int x = 0; x < columns; ++x)
      row[x] = (s.accumulate ? row[x] : Sum(0)) + (s.bias ? Sum(bias[first + x]) : Sum(0));
  }
}

/// Copies those columns of rows [top, top + rows) of b side by side.
template <typename Real>
void pack_panel(const MatmulShape& s, const Real* b, Accurate<Real>* packed, int panel, int first,
                int columns, int top, int rows) {
  for (int q = 0; q < rows; ++q) {
    for (int x = 0; x < columns; ++x) {
      const std::ptrdiff_t from = s.transpose_b ? std::ptrdiff_t{first + x} * s.k + top + q
                                                : std::ptrdiff_t{top + q} * s.n + first + x;
      packed[std::ptrdiff_t{q} * panel + x] = Accurate<Real>(b[from]);
    }
  }
}

}  // namespace

template <typename Real>
CpuCompute<Real>::CpuCompute(const Options& options)
    : threads_(std::max(1, options.threads)),
      use_dnnl_(options.use_dnnl),
      kernels_(options.kernels ? *options.kernels : cpu::kernels<Real>()),
      llama_(*this, kernels_),
      decode_(*this, kernels_) {
  omp_set_num_threads(threads_);  // oneDNN takes its threads from here
  omp_set_dynamic(0);
  flush_denormals(threads_);
  if constexpr (!std::is_same_v<Real, double>) {
    if (options.use_dnnl && DnnlMatmul::available<Real>()) dnnl_ = std::make_unique<DnnlMatmul>();
  }
}

template <typename Real>
std::string CpuCompute<Real>::describe() const {
  return std::string("cpu (") + kernels_.instruction_set + ", " +
         (dnnl_ ? DnnlMatmul::name() : "own matrix product") + ", " + std::to_string(threads_) +
         (threads_ == 1 ? " thread)" : " threads)");
}

template <typename Real>
ImageCompute<Real>* CpuCompute<Real>::images() {
  if (!images_) images_ = std::make_unique<CpuImageCompute<Real>>(*this, kernels_, use_dnnl_);
  return images_.get();
}

template <typename Real>
void CpuCompute<Real>::reserve_scratch(std::size_t size_per_thread) {
  const std::size_t size = aligned_count<Sum>(size_per_thread);
  if (size <= scratch_size_) return;
  scratch_ = Arena<Sum>(size * static_cast<std::size_t>(threads_));
  scratch_size_ = size;
}

template <typename Real>
Accurate<Real>* CpuCompute<Real>::scratch(int thread) {
  return scratch_.data() + scratch_size_ * static_cast<std::size_t>(thread);
}

template <typename Real>
void CpuCompute<Real>::matmul(const MatmulShape& shape, const Real* a, const Real* b, const Real* bias,
                              Real* c) {
  if constexpr (!std::is_same_v<Real, double>) {
    if (dnnl_) return (*dnnl_)(shape, a, b, bias, c);
  }
  tiled_matmul(shape, a, b, bias, c);
}

template <typename Real>
void CpuCompute<Real>::weight_gradient(int rows, int from, int to, const Real* input, const Real* d_out,
                                       Sum* d_weight, Sum* d_bias) {
  const MatmulShape shape{.m = to, .n = from, .k = rows, .transpose_a = true};
  if (d_bias) column_sums(d_out, d_bias, rows, to);
  if constexpr (std::is_same_v<Real, float>) {
    if (dnnl_) return (*dnnl_)(shape, d_out, input, nullptr, d_weight);
  } else if constexpr (std::is_same_v<Real, bfloat16>) {
    if (dnnl_) return dnnl_->weight_gradient(rows, from, to, input, d_out, d_weight);
  }
  tiled_matmul(shape, d_out, input, nullptr, d_weight);
}

// The tiled product has one type for sums, a and c: operands of other types are widened first, and results
// are rounded afterwards.
template <typename Real>
template <typename Out>
void CpuCompute<Real>::tiled_matmul(const MatmulShape& s, const Real* a, const Real* b, const Real* bias,
                                    Out* c) {
  if constexpr (std::is_same_v<Real, Sum>) {
    tiled_panels(s, a, b, bias, c);
  } else {
    const std::size_t size = static_cast<std::size_t>(s.m) * s.k;
    if (wide_a_.size() < size) wide_a_ = Arena<Sum>(size);
    std::transform(a, a + size, wide_a_.data(), [](Real x) { return Sum(x); });
    if constexpr (std::is_same_v<Out, Sum>) {
      tiled_panels(s, wide_a_.data(), b, bias, c);
    } else {
      const std::size_t out_size = static_cast<std::size_t>(s.m) * s.n;
      if (wide_c_.size() < out_size) wide_c_ = Arena<Sum>(out_size);
      if (s.accumulate) std::transform(c, c + out_size, wide_c_.data(), [](Out x) { return Sum(x); });
      tiled_panels(s, wide_a_.data(), b, bias, wide_c_.data());
      round(wide_c_.data(), c, out_size);
    }
  }
}

template <typename Real>
void CpuCompute<Real>::tiled_panels(const MatmulShape& s, const Sum* a, const Real* b, const Real* bias,
                                    Sum* c) {
  const int panel = kernels_.matmul.panel_columns;
  reserve_scratch(static_cast<std::size_t>(panel) * depth);
  const std::ptrdiff_t a_row = s.transpose_a ? 1 : s.k, a_column = s.transpose_a ? s.m : 1;
  parallel_for(threads_, static_cast<std::size_t>(s.n), static_cast<std::size_t>(panel),
               static_cast<std::size_t>(s.m) * s.n * s.k, [&](std::size_t begin, std::size_t end) {
                 Sum* packed = scratch(omp_get_thread_num());
                 for (int first = static_cast<int>(begin); first < static_cast<int>(end); first += panel) {
                   const int columns = std::min(panel, static_cast<int>(end) - first);
                   if (s.bias || s.accumulate) begin_panel(s, bias, c, first, columns);
                   for (int top = 0; top < s.k; top += depth) {
                     const int rows = std::min(depth, s.k - top);
                     pack_panel(s, b, packed, panel, first, columns, top, rows);
                     kernels_.matmul.panel(s.m, columns, rows, a + top * a_column, a_row, a_column, packed,
                                           c + first, s.n, s.bias || s.accumulate || top > 0);
                   }
                 }
               });
}

template <typename Real>
void CpuCompute<Real>::embed(const Token* tokens, const Real* token_table, const Real* position_table,
                             Sum* out, int batch, int length, int width) {
  const std::size_t rows = static_cast<std::size_t>(batch) * length;
  parallel_for(threads_, rows, 1, rows * width, [&](std::size_t begin, std::size_t end) {
    kernels_.rows.embed(tokens, token_table, position_table, out, static_cast<int>(begin),
                        static_cast<int>(end), length, width);
  });
}

template <typename Real>
void CpuCompute<Real>::embed_backward(const Token* tokens, const Sum* d_out, Sum* d_token_table,
                                      Sum* d_position_table, int batch, int length, int positions,
                                      int width) {
  std::fill_n(d_position_table, std::ptrdiff_t{positions} * width, Sum(0));
  // Threads own columns, so equal tokens cause no race. 16 floats are one cache line.
  parallel_for(threads_, static_cast<std::size_t>(width), 16,
               static_cast<std::size_t>(batch) * length * width, [&](std::size_t begin, std::size_t end) {
                 for (int row = 0; row < batch * length; ++row) {
                   const Sum* from = d_out + std::ptrdiff_t{row} * width;
                   Sum* token = d_token_table + std::ptrdiff_t{tokens[row]} * width;
                   Sum* position = d_position_table + std::ptrdiff_t{row % length} * width;
                   for (std::size_t i = begin; i < end; ++i) {
                     token[i] += from[i];
                     position[i] += from[i];
                   }
                 }
               });
}

template <typename Real>
void CpuCompute<Real>::layer_norm(const Sum* x, const Real* addend, Sum* sum, const Real* gain,
                                  const Real* bias, Real* out, Sum* mean, Sum* rstd, int rows, int width) {
  parallel_for(threads_, static_cast<std::size_t>(rows), 1, static_cast<std::size_t>(rows) * width,
               [&](std::size_t begin, std::size_t end) {
                 kernels_.rows.layer_norm(x, addend, sum, gain, bias, out, mean, rstd,
                                          static_cast<int>(begin), static_cast<int>(end), width);
               });
}

template <typename Real>
void CpuCompute<Real>::sum_rows(int rows, int width, std::initializer_list<Sum*> totals,
                                const SumKernel& kernel) {
  const std::size_t chunks = (static_cast<std::size_t>(rows) + chunk_rows - 1) / chunk_rows,
                    count = totals.size() * static_cast<std::size_t>(width),
                    stride = aligned_count<Sum>(count);
  if (partial_.size() < chunks * stride) partial_ = Arena<Sum>(chunks * stride);
  parallel_for(threads_, chunks, 1, static_cast<std::size_t>(rows) * width,
               [&](std::size_t first, std::size_t last) {
                 for (std::size_t chunk = first; chunk < last; ++chunk) {
                   Sum* sums = partial_.data() + chunk * stride;
                   std::fill_n(sums, count, Sum(0));
                   const int begin = static_cast<int>(chunk) * chunk_rows;
                   kernel(sums, begin, std::min(rows, begin + chunk_rows));
                 }
               });
  for (Sum* total : totals) std::fill_n(total, width, Sum(0));
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    const Sum* sums = partial_.data() + chunk * stride;
    for (Sum* total : totals) {
      kernels_.rows.add(sums, total, static_cast<std::size_t>(width));
      sums += width;
    }
  }
}

template <typename Real>
void CpuCompute<Real>::layer_norm_backward(const Sum* x, const Real* gain, const Sum* mean, const Sum* rstd,
                                           const Real* d_out, Sum* d_x, Real* rounded, Sum* d_gain,
                                           Sum* d_bias, int rows, int width) {
  sum_rows(rows, width, {d_gain, d_bias}, [&](Sum* sums, int begin, int end) {
    kernels_.rows.layer_norm_backward(x, gain, mean, rstd, d_out, d_x, rounded, sums, sums + width, begin,
                                      end, width);
  });
}

template <typename Real>
void CpuCompute<Real>::gelu(const Real* x, Real* out, std::size_t count) {
  parallel_for(threads_, count, 16, count, [&](std::size_t begin, std::size_t end) {
    kernels_.rows.gelu(x + begin, out + begin, end - begin);
  });
}

template <typename Real>
void CpuCompute<Real>::gelu_backward(const Real* x, Real* d_inout, std::size_t count) {
  parallel_for(threads_, count, 16, count, [&](std::size_t begin, std::size_t end) {
    kernels_.rows.gelu_backward(x + begin, d_inout + begin, end - begin);
  });
}

template <typename Real>
void CpuCompute<Real>::column_sums(const Real* x, Sum* out, int rows, int width) {
  sum_rows(rows, width, {out},
           [&](Sum* sums, int begin, int end) { kernels_.rows.column_sums(x, sums, begin, end, width); });
}

template <typename Real>
template <typename Kernel>
void CpuCompute<Real>::for_each_group(const AttentionShape& s, const Kernel& kernel) {
  const int head_width = s.head_width(), kv_heads = s.heads / s.group(), row_width = s.qkv_width();
  const HeadGroup shape{s.group(), s.length, head_width, row_width, 0, 0, s.width};
  reserve_scratch(kernels_.attention.scratch(shape));
  const std::size_t tasks = static_cast<std::size_t>(s.batch) * kv_heads;
  parallel_for(threads_, tasks, 1, tasks * s.length * s.length, [&](std::size_t first, std::size_t last) {
    Sum* own = scratch(omp_get_thread_num());
    for (std::size_t task = first; task < last; ++task) {
      const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(task / kv_heads) * s.length;
      const int kv_head = static_cast<int>(task % kv_heads), column = kv_head * s.group() * head_width;
      HeadGroup group = shape;
      group.key = s.width + kv_head * head_width - column;
      group.value = group.key + kv_heads * head_width;
      kernel(row * row_width + column, row * s.width + column, task * s.group() * s.length, own, group);
    }
  });
}

template <typename Real>
void CpuCompute<Real>::attention(const AttentionShape& s, const Real* qkv, Real* out, Sum* log_sum) {
  for_each_group(s, [&](auto in, auto at, auto rows, Sum* own, const HeadGroup& group) {
    kernels_.attention.forward(qkv + in, out + at, log_sum + rows, own, group);
  });
}

template <typename Real>
void CpuCompute<Real>::attention_backward(const AttentionShape& s, const Real* qkv, const Real* out,
                                          const Sum* log_sum, const Real* d_out, Real* d_qkv) {
  for_each_group(s, [&](auto in, auto at, auto rows, Sum* own, const HeadGroup& group) {
    kernels_.attention.backward(qkv + in, out + at, log_sum + rows, d_out + at, d_qkv + in, own, group);
  });
}

template <typename Real>
void CpuCompute<Real>::compute_cross_entropy(Real* logits, const Token* targets, int rows, int classes,
                                             Sum gradient_scale) {
  sums_.resize(std::max(sums_.size(), static_cast<std::size_t>(rows)));
  parallel_for(threads_, static_cast<std::size_t>(rows), 1, static_cast<std::size_t>(rows) * classes,
               [&](std::size_t begin, std::size_t end) {
                 kernels_.rows.cross_entropy(logits, targets, sums_.data(), static_cast<int>(begin),
                                             static_cast<int>(end), classes, gradient_scale,
                                             Sum(this->label_smoothing_));
               });
  double total = 0;
  for (int row = 0; row < rows; ++row) total += sums_[static_cast<std::size_t>(row)];
  this->loss_ = this->accumulates_loss_ ? this->loss_ + total : total;
}

template <typename Real>
double CpuCompute<Real>::sum_of_squares(const Sum* x, std::size_t count, std::size_t position) {
  const std::size_t before = position % norm_block;  // elements of the first block
  const std::size_t blocks = (before + count + norm_block - 1) / norm_block;
  sums_.resize(std::max(sums_.size(), blocks));
  parallel_for(threads_, blocks, 1, count, [&](std::size_t first, std::size_t last) {
    for (std::size_t block = first; block < last; ++block) {
      const std::size_t begin = std::max(block * norm_block, before) - before;
      const std::size_t end = std::min((block + 1) * norm_block - before, count);
      sums_[block] = kernels_.update.sum_of_squares(x + begin, end - begin);
    }
  });
  double total = 0;
  for (std::size_t block = 0; block < blocks; ++block) total += sums_[block];
  return total;
}

template <typename Real>
void CpuCompute<Real>::adamw(const AdamwStep& s, Sum* parameter, const Sum* gradient, Sum* moment1,
                             Sum* moment2, bfloat16* rounded, std::size_t count) {
  parallel_for(threads_, count, 32, count, [&](std::size_t begin, std::size_t end) {
    kernels_.update.adamw(parameter + begin, gradient + begin, moment1 + begin, moment2 + begin,
                          rounded ? rounded + begin : nullptr, end - begin, Sum(s.gradient_scale),
                          Sum(s.beta1), Sum(s.beta2), Sum(s.learning_rate / s.correction1),
                          Sum(1 / s.correction2), Sum(s.epsilon), Sum(1 - s.learning_rate * s.weight_decay));
  });
}

template <typename Real>
void CpuCompute<Real>::sgd(const SgdStep& s, Sum* parameter, const Sum* gradient, Sum* momentum,
                           bfloat16* rounded, std::size_t count) {
  parallel_for(threads_, count, 32, count, [&](std::size_t begin, std::size_t end) {
    kernels_.update.sgd(parameter + begin, gradient + begin, momentum + begin,
                        rounded ? rounded + begin : nullptr, end - begin, Sum(s.gradient_scale),
                        Sum(s.weight_decay), Sum(s.momentum), s.nesterov, Sum(s.learning_rate));
  });
}

template <typename Real>
void CpuCompute<Real>::accumulate(const Sum* x, Sum* sum, std::size_t count, bool first) {
  parallel_for(threads_, count, 32, count, [&](std::size_t begin, std::size_t end) {
    if (first) std::fill(sum + begin, sum + end, Sum(0));
    kernels_.rows.add(x + begin, sum + begin, end - begin);
  });
}

template <typename Real>
void CpuCompute<Real>::round(const Sum* parameter, bfloat16* rounded, std::size_t count) {
  parallel_for(threads_, count, 32, count, [&](std::size_t begin, std::size_t end) {
    kernels_.update.round(parameter + begin, rounded + begin, end - begin);
  });
}

template class CpuCompute<float>;
template class CpuCompute<double>;
template class CpuCompute<bfloat16>;

}  // namespace muster::compute::cpu
