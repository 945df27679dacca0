// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "compute/precision.hpp"
#include "compute/token.hpp"

namespace muster::compute {

/// Heads that are rotated by their position: the first `heads` heads of each row of an array whose rows are
/// `row_width` long. Row r is at position first + r % length.
struct RotaryShape {
  int rows = 0, length = 0, first = 0;
  int heads = 0, head_width = 0, row_width = 0;
};

/// The operations of a Llama model beside those of Compute, on one device. Not thread-safe.
template <typename Real>
class LlamaCompute {
 public:
  using Sum = Accurate<Real>;
  virtual ~LlamaCompute() = default;

  /// out[r] = token_table[tokens[r]].
  virtual void embed(const Token* tokens, const Real* token_table, Sum* out, int rows, int width) = 0;
  /// Adds to d_token_table[vocabulary, width].
  virtual void embed_backward(const Token* tokens, const Sum* d_out, Sum* d_token_table, int rows,
                              int width) = 0;
  /// Sets a gradient to zero.
  virtual void clear(Sum* gradient, std::size_t count) = 0;

  /// sum = x + addend (both skipped when addend is null: then x itself is normalized), out = gain * sum *
  /// rstd, with rstd[rows] = 1 / sqrt(mean(sum^2) + epsilon) (Zhang and Sennrich, arXiv 1910.07467).
  virtual void rms_norm(const Sum* x, const Real* addend, Sum* sum, const Real* gain, Real* out, Sum* rstd,
                        int rows, int width, double epsilon) = 0;
  /// d_x += d rms_norm / d x; d_gain [width] is overwritten. `rounded`, unless null, gets d_x.
  virtual void rms_norm_backward(const Sum* x, const Real* gain, const Sum* rstd, const Real* d_out, Sum* d_x,
                                 Real* rounded, Sum* d_gain, int rows, int width) = 0;

  /// Rotates the pairs of elements (i, i + head_width / 2) of each head in place (Su et al., arXiv
  /// 2104.09864, in Hugging Face's order), or back. table: a row for each position, the cosines of its
  /// angles and then their sines.
  virtual void rotate(const RotaryShape& shape, const Sum* table, Real* x, bool back) = 0;

  /// out[rows, width] = silu(gate) * up, with (gate | up) in each row of gate_up[rows, 2 * width] (Shazeer,
  /// arXiv 2002.05202).
  virtual void swiglu(const Real* gate_up, Real* out, int rows, int width) = 0;
  /// Overwrites d_gate_up[rows, 2 * width].
  virtual void swiglu_backward(const Real* gate_up, const Real* d_out, Real* d_gate_up, int rows,
                               int width) = 0;
};

}  // namespace muster::compute
