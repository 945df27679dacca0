// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <utility>

#include "compute/compute.hpp"

/// The phases of a training step.
enum class Phase { products, attention, norms, gelu, classifier, embeddings, finite_and_norm, adamw, count };
inline constexpr std::array phase_names{"matrix products", "attention",  "layer norms",          "GELU",
                                        "classifier",      "embeddings", "finite? and clipping", "AdamW"};

/// Wraps another Compute and times its calls.
template <typename Real>
class TimedCompute final : public muster::compute::Compute<Real> {
 public:
  using Sum = muster::compute::Accurate<Real>;
  using Token = muster::compute::Token;
  /// `now`: returns the time in seconds.
  TimedCompute(muster::compute::Compute<Real>& inner, std::function<double()> now)
      : inner_(inner), now_(std::move(now)) {}

  /// Seconds by phase, and floating-point operations of matrix products, since the last call.
  std::array<double, static_cast<std::size_t>(Phase::count)> take_seconds() {
    return std::exchange(seconds_, {});
  }
  double take_flops() { return std::exchange(flops_, 0); }

  std::string describe() const override { return inner_.describe(); }
  void matmul(const muster::compute::MatmulShape& s, const Real* a, const Real* b, const Real* bias,
              Real* c) override {
    flops_ += 2.0 * s.m * s.n * s.k;
    time(Phase::products, [&] { inner_.matmul(s, a, b, bias, c); });
  }
  void weight_gradient(int rows, int from, int to, const Real* input, const Real* d_out, Sum* d_weight,
                       Sum* d_bias) override {
    flops_ += 2.0 * rows * from * to;
    time(Phase::products, [&] { inner_.weight_gradient(rows, from, to, input, d_out, d_weight, d_bias); });
  }
  void embed(const Token* tokens, const Real* token_table, const Real* position_table, Sum* out, int batch,
             int length, int width) override {
    time(Phase::embeddings,
         [&] { inner_.embed(tokens, token_table, position_table, out, batch, length, width); });
  }
  void embed_backward(const Token* tokens, const Sum* d_out, Sum* d_token_table, Sum* d_position_table,
                      int batch, int length, int positions, int width) override {
    time(Phase::embeddings, [&] {
      inner_.embed_backward(tokens, d_out, d_token_table, d_position_table, batch, length, positions, width);
    });
  }
  void layer_norm(const Sum* x, const Real* addend, Sum* sum, const Real* gain, const Real* bias, Real* out,
                  Sum* mean, Sum* rstd, int rows, int width) override {
    time(Phase::norms, [&] { inner_.layer_norm(x, addend, sum, gain, bias, out, mean, rstd, rows, width); });
  }
  void layer_norm_backward(const Sum* x, const Real* gain, const Sum* mean, const Sum* rstd,
                           const Real* d_out, Sum* d_x, Real* rounded, Sum* d_gain, Sum* d_bias, int rows,
                           int width) override {
    time(Phase::norms, [&] {
      inner_.layer_norm_backward(x, gain, mean, rstd, d_out, d_x, rounded, d_gain, d_bias, rows, width);
    });
  }
  void gelu(const Real* x, Real* out, std::size_t count) override {
    time(Phase::gelu, [&] { inner_.gelu(x, out, count); });
  }
  void gelu_backward(const Real* x, Real* d_inout, std::size_t count) override {
    time(Phase::gelu, [&] { inner_.gelu_backward(x, d_inout, count); });
  }
  void clear(void* memory, std::size_t bytes) override {
    time(Phase::norms, [&] { inner_.clear(memory, bytes); });
  }
  void attention(const muster::compute::AttentionShape& shape, const Real* qkv, Real* out,
                 Sum* log_sum) override {
    time(Phase::attention, [&] { inner_.attention(shape, qkv, out, log_sum); });
  }
  void attention_backward(const muster::compute::AttentionShape& shape, const Real* qkv, const Real* out,
                          const Sum* log_sum, const Real* d_out, Real* d_qkv) override {
    time(Phase::attention, [&] { inner_.attention_backward(shape, qkv, out, log_sum, d_out, d_qkv); });
  }
  void compute_cross_entropy(Real* logits, const Token* targets, int rows, int classes,
                             Sum gradient_scale) override {
    time(Phase::classifier,
         [&] { inner_.compute_cross_entropy(logits, targets, rows, classes, gradient_scale); });
  }
  double loss() override { return inner_.loss(); }
  double sum_of_squares(const Sum* x, std::size_t count, std::size_t position) override {
    return time(Phase::finite_and_norm, [&] { return inner_.sum_of_squares(x, count, position); });
  }
  void sgd(const muster::compute::SgdStep& step, Sum* parameter, const Sum* gradient, Sum* momentum,
           muster::bfloat16* rounded, std::size_t count) override {
    time(Phase::adamw, [&] { inner_.sgd(step, parameter, gradient, momentum, rounded, count); });
  }
  void adamw(const muster::compute::AdamwStep& step, Sum* parameter, const Sum* gradient, Sum* moment1,
             Sum* moment2, muster::bfloat16* rounded, std::size_t count) override {
    time(Phase::adamw, [&] { inner_.adamw(step, parameter, gradient, moment1, moment2, rounded, count); });
  }
  void accumulate(const Sum* x, Sum* sum, std::size_t count, bool first) override {
    inner_.accumulate(x, sum, count, first);
  }
  void round(const Sum* parameter, muster::bfloat16* rounded, std::size_t count) override {
    inner_.round(parameter, rounded, count);
  }

 private:
  template <typename F>
  auto time(Phase phase, F&& f) {
    struct Until {
      const TimedCompute& self;
      double& seconds;
      double from = self.now_();
      ~Until() { seconds += self.now_() - from; }
    } until{*this, seconds_[static_cast<std::size_t>(phase)]};
    return f();
  }

  muster::compute::Compute<Real>& inner_;
  std::function<double()> now_;
  std::array<double, static_cast<std::size_t>(Phase::count)> seconds_{};
  double flops_ = 0;
};
