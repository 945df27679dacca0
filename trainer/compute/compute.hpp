// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "compute/autotuner.hpp"
#include "compute/decode_compute.hpp"
#include "compute/image_compute.hpp"
#include "compute/llama_compute.hpp"
#include "compute/memory.hpp"
#include "compute/precision.hpp"
#include "compute/side_stream.hpp"
#include "compute/step_outcome.hpp"
#include "compute/token.hpp"

namespace muster::compute {

/// Elements of a block of sum_of_squares().
inline constexpr std::size_t norm_block = 1 << 14;

/// c[m,n] = a·b (+ bias[n]) (+ c when accumulate). All row-major and dense; a is stored [k,m] when
/// transpose_a, b is stored [n,k] when transpose_b.
struct MatmulShape {
  int m = 0, n = 0, k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool bias = false;
  bool accumulate = false;
  bool operator==(const MatmulShape&) const = default;
};

/// Batch geometry of one attention call. Activations are [batch, length, …], rows = batch * length.
struct AttentionShape {
  int batch = 0, length = 0, heads = 0, width = 0;
  /// Heads of keys and values, each for as many heads of queries (grouped-query attention, Ainslie et al.,
  /// arXiv 2305.13245). 0: as many as heads.
  int kv_heads = 0;

  /// Heads of queries that share a head of keys and values.
  int group() const { return kv_heads > 0 ? heads / kv_heads : 1; }
  int head_width() const { return width / heads; }
  /// Width of (query | key | value).
  int qkv_width() const { return width + 2 * (heads / group()) * head_width(); }
};

/// Scalars of one AdamW step (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2).
struct AdamwStep {
  double learning_rate = 0;
  double beta1 = 0, beta2 = 0, epsilon = 0;
  double weight_decay = 0;
  double gradient_scale = 1;                ///< multiplies every gradient first (clipping)
  double correction1 = 1, correction2 = 1;  ///< 1 - beta^t
};

/// Scalars of one step of SGD with momentum: g += weight_decay * p; v = momentum * v + g; p -= learning_rate
/// * (nesterov ? g + momentum * v : v), as torch.optim.SGD without dampening (Sutskever et al. 2013).
struct SgdStep {
  double learning_rate = 0;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double gradient_scale = 1;  ///< multiplies every gradient first (clipping)
};

/// Operations on parameters and their gradients, independent of the model's precision (see Compute).
///
/// A step calls begin_step(); for each chunk the model's gradients, check_finite() on each gradient as soon
/// as it is complete, and end_chunk(); after the reduction decide(), adamw() or sgd() if decide() allows it,
/// end_step(), and outcome().
/// On an asynchronous device only outcome() waits. The next step may begin before it: at most one outcome,
/// that of the previous step, may be outstanding then. The functions that are not pure here do this on the
/// host.
template <typename Real>
class UpdateCompute {
 public:
  virtual ~UpdateCompute() = default;

  /// For the start line, e.g. "cpu (avx512, oneDNN 2.6.3, 2 threads)".
  virtual std::string describe() const = 0;
  /// The memory of all operands except tokens. Tokens are in host memory and may change once a call returns.
  virtual Memory& memory() { return host_memory(); }
  /// The memory of a model's parameters: memory(), unless another one is set.
  Memory& parameter_memory() { return parameter_memory_ ? *parameter_memory_ : memory(); }
  /// For models that are built from now on. Null: memory().
  void set_parameter_memory(Memory* memory) { parameter_memory_ = memory; }
  /// Host memory to and from which a device copies while it computes.
  virtual Memory& transfer_memory() { return host_memory(); }
  /// Bytes of memory() that are allocated now; 0 for host memory.
  virtual std::size_t allocated_bytes() const { return 0; }
  /// For models that are built from now on and read only rounded parameters: whether they have no others.
  void set_rounded_only(bool only) { rounded_only_ = only; }
  bool rounded_only() const { return rounded_only_; }
  /// The threads of this process that share the work on host memory.
  virtual int threads() const { return 1; }
  /// Null: the device chooses no algorithms.
  virtual Autotuner* autotuner() { return nullptr; }
  /// The stream that runs all work in the order of calls. Null: a call returns when its work is done.
  virtual Stream stream() const { return nullptr; }
  /// A new stream beside it, for communication that the work need not wait for. Null where stream() is.
  virtual std::unique_ptr<SideStream> open_side_stream() { return nullptr; }
  /// Waits for all enqueued work.
  virtual void wait() {}

  /// `batches`: cross-entropies of each chunk.
  virtual void begin_step(std::size_t chunks, std::size_t batches);
  /// Records whether all elements are finite. `squares`, unless null, gets their sum of squares, as by
  /// write_square_sum(gradient, count, position, squares), which costs the host nothing more.
  virtual void check_finite(const Real* gradient, std::size_t count, std::size_t position, double* squares);
  /// Writes the reduced scalars (ReducedScalar) of this rank's chunk number `chunk`. `scale` turns the last
  /// loss into its share of the global mean.
  virtual void end_chunk(std::size_t chunk, double scale, bool stop, bool failed, Real* slots);
  /// Takes the reduced scalars and gradients. Returns the gradients' norm, or nothing if a value is not
  /// finite: then nothing may be updated. The squares of each part of the arena are added, and then the
  /// parts' sums in their order; `ends`: where each part, as a tensor, ends. An asynchronous device decides
  /// later and returns 0: its adamw() clips to `clip` (0: no clipping) and updates nothing if a value is not
  /// finite.
  virtual std::optional<double> decide(const Real* slots, const Real* gradients,
                                       std::span<const std::size_t> ends, double clip);
  /// The same with the sums of squares of all tensors, some of which are on other ranks: in memory(), as
  /// write_square_sum() writes them.
  virtual std::optional<double> decide_from_squares(const Real* slots, std::span<const double> squares,
                                                    double clip);
  /// Call after all work of the step is enqueued.
  virtual void end_step() {}
  /// A stream that is idle once outcome() need not wait, for Communicator::synchronize(). Null: outcome()
  /// never waits.
  virtual Stream outcome_stream() { return nullptr; }
  /// The outcome of the oldest step whose outcome was not read yet.
  virtual StepOutcome outcome();
  /// Drops the outcomes that were not read, and the step that was begun and not ended, after a failure.
  virtual void drop_outcomes() {}

  /// The last cross-entropy's sum over its rows. Waits.
  virtual double loss() { return loss_; }
  /// Copies loss() to an element of memory(). A device is not waited for.
  virtual void save_loss(double* to) { *to = loss_; }
  /// Copies it back: loss() from now on, as it was after an earlier cross-entropy.
  virtual void restore_loss(const double* from) { loss_ = *from; }
  /// While it is on, a cross-entropy adds to loss().
  void accumulate_loss(bool on) { accumulates_loss_ = on; }
  bool accumulates_loss() const { return accumulates_loss_; }
  /// sum += x; with `first`, sum = x.
  virtual void accumulate(const Real* x, Real* sum, std::size_t count, bool first) = 0;
  /// Sets these bytes of memory() to 0.
  virtual void clear(void* memory, std::size_t bytes);
  /// Copies so many bytes within memory(). A device is not waited for.
  virtual void copy(void* to, const void* from, std::size_t bytes);

  /// Sum of squares in double; the same bits for any number of threads and any instruction set. On the host
  /// it is added block by block. Blocks end at multiples of norm_block in an arena, of which `x` is element
  /// number `position`, so that parts that end there can be added by several ranks, in their order.
  virtual double sum_of_squares(const Real* x, std::size_t count, std::size_t position) = 0;
  /// Writes the same to `sum` in memory(). A device is not waited for.
  virtual void write_square_sum(const Real* x, std::size_t count, std::size_t position, double* sum);
  /// One SGD update of `parameter` and its momentum; otherwise as adamw().
  virtual void sgd(const SgdStep& step, Real* parameter, const Real* gradient, Real* momentum,
                   bfloat16* rounded, std::size_t count) = 0;
  /// One AdamW update of `parameter` and its moments; the same bits for any number of threads and any
  /// instruction set. `rounded`, unless null, gets the new parameters rounded as round() does.
  virtual void adamw(const AdamwStep& step, Real* parameter, const Real* gradient, Real* moment1,
                     Real* moment2, bfloat16* rounded, std::size_t count) = 0;
  /// Moves statistics of the batches, as running means, towards those of this step: statistic = (1 -
  /// momentum) * statistic + momentum * batch; on an asynchronous device only if decide() allowed an update.
  virtual void move_statistics(Real* statistic, const Real* batch, std::size_t count, double momentum);
  /// Rounds to the nearest bfloat16, ties to even; NaN stays NaN.
  virtual void round(const Real* parameter, bfloat16* rounded, std::size_t count) = 0;

 protected:
  double loss_ = 0;
  bool accumulates_loss_ = false;

 private:
  Memory* parameter_memory_ = nullptr;
  bool rounded_only_ = false;
  StepOutcome step_;
  bool chunk_is_finite_ = true;
};

/// The arithmetic that a model needs, on one device, with weights and activations in Real. Pointers are
/// memory of that device. A call returns when its result may be used by the next call. Not thread-safe: one
/// model at a time.
template <typename Real>
class Compute : public UpdateCompute<Accurate<Real>> {
 public:
  /// The operations of image models. Null: this device has none.
  virtual ImageCompute<Real>* images() { return nullptr; }
  /// The operations of Llama models. Null: this device has none.
  virtual LlamaCompute<Real>* llama() { return nullptr; }
  /// The operations of generation. Null: this device has none.
  virtual DecodeCompute<Real>* decode() { return nullptr; }

  virtual void matmul(const MatmulShape& shape, const Real* a, const Real* b, const Real* bias, Real* c) = 0;
  /// The gradient of out[rows, to] = input[rows, from]·weight^T + bias: overwrites d_weight[to, from] =
  /// d_out^T·input and, unless it is null, d_bias[to], the sum of d_out's rows.
  virtual void weight_gradient(int rows, int from, int to, const Real* input, const Real* d_out,
                               Accurate<Real>* d_weight, Accurate<Real>* d_bias) = 0;

  /// out[r] = token_table[tokens[r]] + position_table[r % length]: the residual stream, which is Accurate, as
  /// its gradient is.
  virtual void embed(const Token* tokens, const Real* token_table, const Real* position_table,
                     Accurate<Real>* out, int batch, int length, int width) = 0;
  /// Adds to d_token_table[vocabulary, width] and overwrites d_position_table[positions, width], positions >=
  /// length.
  virtual void embed_backward(const Token* tokens, const Accurate<Real>* d_out, Accurate<Real>* d_token_table,
                              Accurate<Real>* d_position_table, int batch, int length, int positions,
                              int width) = 0;

  /// sum = x + addend (both skipped when addend is null: then x itself is normalized), out = LayerNorm(sum).
  /// mean and rstd: [rows], for the backward pass. Epsilon 1e-5 as in GPT-2.
  virtual void layer_norm(const Accurate<Real>* x, const Real* addend, Accurate<Real>* sum, const Real* gain,
                          const Real* bias, Real* out, Accurate<Real>* mean, Accurate<Real>* rstd, int rows,
                          int width) = 0;
  /// d_x += d LayerNorm / d x; d_gain and d_bias [width] are overwritten. `rounded`, unless null, gets d_x.
  virtual void layer_norm_backward(const Accurate<Real>* x, const Real* gain, const Accurate<Real>* mean,
                                   const Accurate<Real>* rstd, const Real* d_out, Accurate<Real>* d_x,
                                   Real* rounded, Accurate<Real>* d_gain, Accurate<Real>* d_bias, int rows,
                                   int width) = 0;

  /// wide[rows, to] = input[rows, from]·weight^T + bias, out = GELU(wide).
  virtual void matmul_gelu(int rows, int from, int to, const Real* input, const Real* weight,
                           const Real* bias, Real* wide, Real* out) {
    matmul({rows, to, from, false, true, true, false}, input, weight, bias, wide);
    gelu(wide, out, static_cast<std::size_t>(rows) * static_cast<std::size_t>(to));
  }
  /// d_wide[rows, from] = (d_out[rows, to]·weight) * GELU'(wide), weight [to, from].
  virtual void matmul_gelu_backward(int rows, int from, int to, const Real* d_out, const Real* weight,
                                    const Real* wide, Real* d_wide) {
    matmul({rows, from, to, false, false, false, false}, d_out, weight, nullptr, d_wide);
    gelu_backward(wide, d_wide, static_cast<std::size_t>(rows) * static_cast<std::size_t>(from));
  }
  virtual void gelu(const Real* x, Real* out, std::size_t count) = 0;
  /// d_inout *= gelu'(x).
  virtual void gelu_backward(const Real* x, Real* d_inout, std::size_t count) = 0;

  /// Causal multi-head attention. qkv: [rows, qkv_width()] as (query | key | value); out: [rows, width];
  /// log_sum: [batch, heads, length], log of each row's softmax denominator, for the backward pass.
  virtual void attention(const AttentionShape& shape, const Real* qkv, Real* out,
                         Accurate<Real>* log_sum) = 0;
  virtual void attention_backward(const AttentionShape& shape, const Real* qkv, const Real* out,
                                  const Accurate<Real>* log_sum, const Real* d_out, Real* d_qkv) = 0;

  /// The row length of cross_entropy()'s logits: `classes`, possibly padded.
  virtual int padded_classes(int classes) const { return classes; }
  /// Afterwards loss() returns the sum over rows of the cross-entropy (nats) of softmax(logits[row]) against
  /// targets[row]. With a non-zero gradient_scale, targets are smoothed (set_label_smoothing()), and logits
  /// [rows, padded_classes(classes)] are replaced by gradient_scale * d sum / d logits, zero in the padding.
  virtual void compute_cross_entropy(Real* logits, const Token* targets, int rows, int classes,
                                     Accurate<Real> gradient_scale) = 0;
  /// The share of each target that is spread evenly over all classes, from 0 on and below 1 (Szegedy et al.,
  /// arXiv 1512.00567, section 7; torch's label_smoothing). 0 unless it is set.
  void set_label_smoothing(double share) { label_smoothing_ = share; }
  /// compute_cross_entropy(), then loss().
  double cross_entropy(Real* logits, const Token* targets, int rows, int classes,
                       Accurate<Real> gradient_scale) {
    compute_cross_entropy(logits, targets, rows, classes, gradient_scale);
    return this->loss();
  }

 protected:
  double label_smoothing_ = 0;
};

}  // namespace muster::compute
