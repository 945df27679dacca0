// SPDX-License-Identifier: Apache-2.0
// CudaCompute's operations, each against the CPU's in double.
#include <dlfcn.h>

#include <cmath>

#include "catch.hpp"
#include "optimizer/optimizer.hpp"
#include "trainer/fakes/gpu_or_doubles.hpp"
#include "trainer/models/model_fixture.hpp"

using muster::bfloat16;
using muster::compute::cuda::CudaCompute;
using Exact = std::vector<double>;
using Bf16s = std::vector<bfloat16>;

namespace {

/// The fake GPU is slow.
constexpr int sequence = TestGpu::is_fake ? 70 : 1000, sequences = TestGpu::is_fake ? 1 : 4;

std::vector<float> random_floats(std::size_t count, std::uint64_t stream) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>(muster::normal(4, stream, i));
  return out;
}
Bf16s random_bf16(std::size_t count, std::uint64_t stream, double spread = 1) {
  Bf16s out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = bfloat16(static_cast<float>(spread * muster::normal(4, stream, i)));
  return out;
}
Exact exact(const Bf16s& values) {
  Exact out;
  for (const bfloat16 value : values) out.push_back(static_cast<double>(static_cast<float>(value)));
  return out;
}
Exact exact(const std::vector<float>& values) { return {values.begin(), values.end()}; }

/// Relative L2 distance.
template <typename Number>
double distance(const std::vector<Number>& found, const Exact& expected) {
  const Exact values = exact(found);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (values[i] - expected[i]) * (values[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference / size);
}
/// Rounding each result once gives at most 2^-8, and about 2^-8 / sqrt(3) / 2 in L2; twice that allows for
/// rounded operands. Float sums are nearer.
constexpr double once = 2e-3, twice = 4e-3, in_float = 1e-5;

struct Both {
  TestGpu test_gpu;
  CudaCompute gpu{{}};
  muster::compute::cpu::CpuCompute<double> cpu{{2, false, nullptr}};
  template <typename Number>
  OnDevice<Number> to_device(const std::vector<Number>& values) {
    return {gpu.memory(), values};
  }
  template <typename Number>
  OnDevice<Number> allocate(std::size_t count) {
    return {gpu.memory(), count};
  }
};

std::size_t area(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}

}  // namespace

TEST_CASE("matrix products of every form agree with the CPU's", "[gpu operations]") {
  Both on;
  const int m = 24, n = 40, k = 16;
  const auto a = random_bf16(area(m, k), 1), b = random_bf16(area(k, n), 2), bias = random_bf16(n, 3),
             before = random_bf16(area(m, n), 4);
  for (int form = 0; form < 16; ++form) {
    CAPTURE(form);
    const muster::compute::MatmulShape shape{
        m, n, k, (form & 1) != 0, (form & 2) != 0, (form & 4) != 0, (form & 8) != 0};
    auto ga = on.to_device(a), gb = on.to_device(b), gbias = on.to_device(bias), gc = on.to_device(before);
    on.gpu.matmul(shape, ga.data(), gb.data(), gbias.data(), gc.data());
    Exact expected = exact(before);
    on.cpu.matmul(shape, exact(a).data(), exact(b).data(), exact(bias).data(), expected.data());
    // On an H100, cuBLASLt 13.1 rounds a product before it adds to c: the distance is 0.0023 to 0.0025.
    CHECK(distance(gc.values(), expected) < (shape.accumulate ? twice : once));
  }
}

TEST_CASE("gradients of weights and biases", "[gpu operations]") {
  Both on;
  const int rows = 72, from = 24, to = 40;
  const auto input = random_bf16(area(rows, from), 1), d_out = random_bf16(area(rows, to), 2);
  auto gi = on.to_device(input), gd = on.to_device(d_out);
  auto weight = on.allocate<float>(area(to, from)), bias = on.allocate<float>(to);
  on.gpu.weight_gradient(rows, from, to, gi.data(), gd.data(), weight.data(), bias.data());
  Exact d_weight(area(to, from)), d_bias(to);
  on.cpu.weight_gradient(rows, from, to, exact(input).data(), exact(d_out).data(), d_weight.data(),
                         d_bias.data());
  CHECK(distance(weight.values(), d_weight) < in_float);
  CHECK(distance(bias.values(), d_bias) < in_float);
}

TEST_CASE("products with GELU, and its gradient", "[gpu operations]") {
  Both on;
  const int rows = 40, from = 16, to = 64;
  const auto input = random_bf16(area(rows, from), 1), weight = random_bf16(area(to, from), 2, 0.3),
             bias = random_bf16(to, 3), d_out = random_bf16(area(rows, from), 4);
  auto gi = on.to_device(input), gw = on.to_device(weight), gb = on.to_device(bias), gd = on.to_device(d_out);
  auto wide = on.allocate<bfloat16>(area(rows, to)), out = on.allocate<bfloat16>(area(rows, to)),
       d_wide = on.allocate<bfloat16>(area(rows, to));
  on.gpu.matmul_gelu(rows, from, to, gi.data(), gw.data(), gb.data(), wide.data(), out.data());
  Exact w(area(rows, to)), o(area(rows, to)), dw(area(rows, to));
  on.cpu.matmul_gelu(rows, from, to, exact(input).data(), exact(weight).data(), exact(bias).data(), w.data(),
                     o.data());
  CHECK(distance(wide.values(), w) < once);
  CHECK(distance(out.values(), o) < twice);
  // Backward through the other weight of an MLP: [from, to].
  const auto project = random_bf16(area(from, to), 5, 0.3);
  auto gp = on.to_device(project);
  on.gpu.matmul_gelu_backward(rows, to, from, gd.data(), gp.data(), wide.data(), d_wide.data());
  on.cpu.matmul_gelu_backward(rows, to, from, exact(d_out).data(), exact(project).data(),
                              exact(wide.values()).data(), dw.data());
  CHECK(distance(d_wide.values(), dw) < twice);
}

TEST_CASE("LayerNorm", "[gpu operations]") {
  Both on;
  const int rows = 33, width = 1600;
  const auto x = random_floats(area(rows, width), 1);
  const auto addend = random_bf16(area(rows, width), 2), gain = random_bf16(width, 3),
             bias = random_bf16(width, 4), d_out = random_bf16(area(rows, width), 5);
  auto gx = on.to_device(x);
  auto ga = on.to_device(addend), gg = on.to_device(gain), gb = on.to_device(bias), gd = on.to_device(d_out);
  auto sum = on.allocate<float>(x.size()), d_x = on.allocate<float>(x.size());
  auto out = on.allocate<bfloat16>(x.size()), rounded = on.allocate<bfloat16>(x.size());
  auto mean = on.allocate<float>(rows), rstd = on.allocate<float>(rows), d_gain = on.allocate<float>(width),
       d_bias = on.allocate<float>(width);
  on.gpu.layer_norm(gx.data(), ga.data(), sum.data(), gg.data(), gb.data(), out.data(), mean.data(),
                    rstd.data(), rows, width);
  on.gpu.layer_norm_backward(sum.data(), gg.data(), mean.data(), rstd.data(), gd.data(), d_x.data(),
                             rounded.data(), d_gain.data(), d_bias.data(), rows, width);
  const Exact s = exact(sum.values()), g = exact(gain);
  Exact o(x.size()), m(rows), r(rows), dx(x.size()), dg(width), db(width);
  on.cpu.layer_norm(s.data(), nullptr, nullptr, g.data(), exact(bias).data(), o.data(), m.data(), r.data(),
                    rows, width);
  on.cpu.layer_norm_backward(s.data(), g.data(), m.data(), r.data(), exact(d_out).data(), dx.data(), nullptr,
                             dg.data(), db.data(), rows, width);
  CHECK(distance(out.values(), o) < once);
  CHECK(distance(rstd.values(), r) < in_float);
  CHECK(distance(d_x.values(), dx) < in_float);
  CHECK(distance(rounded.values(), dx) < once);
  CHECK(distance(d_gain.values(), dg) < in_float);
  CHECK(distance(d_bias.values(), db) < in_float);
}

TEST_CASE("attention", "[gpu operations]") {
  Both on;
  const muster::compute::AttentionShape shape{sequences, sequence, 2, 128};
  const std::size_t rows = area(sequences, sequence);
  const auto qkv = random_bf16(rows * 384, 1), d_out = random_bf16(rows * 128, 2);
  auto gq = on.to_device(qkv), gd = on.to_device(d_out);
  auto out = on.allocate<bfloat16>(rows * 128), d_qkv = on.allocate<bfloat16>(rows * 384);
  auto log_sum = on.allocate<float>(rows * 2);
  on.gpu.attention(shape, gq.data(), out.data(), log_sum.data());
  on.gpu.attention_backward(shape, gq.data(), out.data(), log_sum.data(), gd.data(), d_qkv.data());
  Exact o(rows * 128), l(rows * 2), dq(rows * 384);
  on.cpu.attention(shape, exact(qkv).data(), o.data(), l.data());
  on.cpu.attention_backward(shape, exact(qkv).data(), exact(out.values()).data(), l.data(),
                            exact(d_out).data(), dq.data());
  CHECK(distance(out.values(), o) < twice);
  CHECK(distance(log_sum.values(), l) < in_float);
  CHECK(distance(d_qkv.values(), dq) < twice);
}

TEST_CASE("attention with heads of every width, of which two share keys and values",
          "[gpu operations][head widths]") {
  Both on;
  const int head_width = GENERATE(32, 64, 96, 128), length = TestGpu::is_fake ? 9 : sequence;
  CAPTURE(head_width);
  const muster::compute::AttentionShape shape{sequences, length, 2, 2 * head_width, 1};
  const std::size_t rows = area(sequences, length), in = rows * static_cast<std::size_t>(4 * head_width),
                    out_size = in / 2;
  const auto qkv = random_bf16(in, 1), d_out = random_bf16(out_size, 2);
  auto gq = on.to_device(qkv), gd = on.to_device(d_out);
  auto out = on.allocate<bfloat16>(out_size), d_qkv = on.allocate<bfloat16>(in);
  auto log_sum = on.allocate<float>(rows * 2);
  on.gpu.attention(shape, gq.data(), out.data(), log_sum.data());
  on.gpu.attention_backward(shape, gq.data(), out.data(), log_sum.data(), gd.data(), d_qkv.data());
  Exact o(out_size), l(rows * 2), dq(in);
  on.cpu.attention(shape, exact(qkv).data(), o.data(), l.data());
  on.cpu.attention_backward(shape, exact(qkv).data(), exact(out.values()).data(), l.data(),
                            exact(d_out).data(), dq.data());
  CHECK(distance(out.values(), o) < twice);
  CHECK(distance(log_sum.values(), l) < in_float);
  CHECK(distance(d_qkv.values(), dq) < twice);
}

TEST_CASE("embeddings", "[gpu operations]") {
  Both on;
  const int batch = 2, length = 30, positions = 40, width = 264, vocabulary = 300;
  const auto tokens = test_text(area(batch, length));
  const auto table = random_bf16(area(vocabulary, width), 1), place = random_bf16(area(positions, width), 2);
  const auto d_out = random_floats(area(batch * length, width), 3);
  auto gt = on.to_device(table), gp = on.to_device(place);
  auto gd = on.to_device(d_out), out = on.allocate<float>(d_out.size());
  OnDevice<float> d_table(on.gpu.memory(), std::vector<float>(table.size(), 1)),
      d_place(on.gpu.memory(), std::vector<float>(place.size(), 5));
  on.gpu.embed(tokens.data(), gt.data(), gp.data(), out.data(), batch, length, width);
  on.gpu.embed_backward(tokens.data(), gd.data(), d_table.data(), d_place.data(), batch, length, positions,
                        width);
  Exact o(d_out.size()), dt(table.size(), 1), dp(place.size(), 5);
  on.cpu.embed(tokens.data(), exact(table).data(), exact(place).data(), o.data(), batch, length, width);
  on.cpu.embed_backward(tokens.data(), exact(d_out).data(), dt.data(), dp.data(), batch, length, positions,
                        width);
  CHECK(distance(out.values(), o) < in_float);
  CHECK(distance(d_table.values(), dt) < in_float);
  CHECK(distance(d_place.values(), dp) < in_float);
}

namespace {

/// A step of one chunk with these gradients, and an update of one parameter arena.
muster::compute::StepOutcome step(Both& on, OnDevice<float>& slots, OnDevice<float>& gradients,
                                  OnDevice<float>& parameters, OnDevice<float>& moments,
                                  OnDevice<bfloat16>& rounded) {
  on.gpu.begin_step(1, 1);
  auto logits = on.to_device(random_bf16(64, 9));
  const muster::compute::Token target = 3;
  on.gpu.compute_cross_entropy(logits.data(), &target, 1, 50, 0.5f);
  on.gpu.check_finite(gradients.data(), gradients.size(), 0, nullptr);
  on.gpu.end_chunk(0, 1, true, false, slots.data());
  const std::size_t end = gradients.size();
  CHECK(on.gpu.decide(slots.data(), gradients.data(), std::span(&end, 1), 1.0) == 0.0);
  muster::compute::AdamwStep scalars;
  scalars.learning_rate = 0.01, scalars.beta1 = 0.9, scalars.beta2 = 0.99, scalars.epsilon = 1e-8;
  scalars.correction1 = 0.1, scalars.correction2 = 0.01;
  on.gpu.adamw(scalars, parameters.data(), gradients.data(), moments.data(),
               moments.data() + moments.size() / 2, rounded.data(), parameters.size());
  on.gpu.end_step();
  return on.gpu.outcome();
}

}  // namespace

TEST_CASE("the device decides a step, clips it, and applies or skips it", "[gpu operations]") {
  Both on;
  const std::size_t count = 1027;
  std::vector<float> values(count, 0.1f);
  auto slots = on.allocate<float>(16), gradients = on.to_device(values),
       parameters = on.to_device(std::vector<float>(count, 1)), moments = on.allocate<float>(2 * 1040);
  auto rounded = on.allocate<bfloat16>(count);
  const auto good = step(on, slots, gradients, parameters, moments, rounded);
  CHECK(good.finite);
  CHECK(good.any_stop);
  CHECK_FALSE(good.any_failed);
  CHECK(good.gradient_norm == Approx(std::sqrt(count * 0.01)));
  CHECK(good.loss > 0);
  CHECK(good.chunk_is_finite == std::vector<bool>{true});
  CHECK(moments.values()[5] == Approx(0.1 * 0.1 / good.gradient_norm));  // clipped to norm 1
  CHECK(parameters.values()[5] == Approx(1 - 0.01).epsilon(1e-5));
  CHECK(rounded.values()[5].bits == bfloat16(parameters.values()[5]).bits);
  CHECK(on.gpu.sum_of_squares(gradients.data(), count, 0) == Approx(count * 0.01));

  // SGD takes the same decision: v = 0.9 v + g / norm + 0.1 p, p -= 0.5 (g / norm + 0.1 p + 0.9 v).
  auto weights = on.to_device(std::vector<float>(count, 1)),
       momentum = on.to_device(std::vector<float>(count, 2));
  const auto descend = [&] {
    on.gpu.sgd({0.5, 0.9, true, 0.1, 1}, weights.data(), gradients.data(), momentum.data(), rounded.data(),
               count);
  };
  descend();
  const double g = 0.1 / good.gradient_norm + 0.1, v = 0.9 * 2 + g;
  CHECK(momentum.values()[1026] == Approx(v).epsilon(1e-6));
  CHECK(weights.values()[1026] == Approx(1 - 0.5 * (g + 0.9 * v)).epsilon(1e-6));
  CHECK(rounded.values()[1026].bits == bfloat16(weights.values()[1026]).bits);

  const auto before = parameters.values(), weights_before = weights.values();
  values[1026] = std::numeric_limits<float>::quiet_NaN();
  auto spoiled = on.to_device(values);
  const auto bad = step(on, slots, spoiled, parameters, moments, rounded);
  CHECK_FALSE(bad.finite);
  CHECK(bad.chunk_is_finite == std::vector<bool>{false});
  CHECK(parameters.values() == before);
  descend();
  CHECK(weights.values() == weights_before);
}

TEST_CASE("a tensor's sum of squares has the same bits wherever it lies, and the norm adds them in order",
          "[gpu operations]") {
  Both on;
  constexpr std::size_t begin = 2064, count = 5008;
  std::vector<float> values(begin + count);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.01f * static_cast<float>(i % 97);
  auto arena = on.to_device(values),
       alone = on.to_device(std::vector<float>(values.begin() + begin, values.end())),
       slots = on.to_device(std::vector<float>(4));
  auto sums = on.allocate<double>(3);
  on.gpu.write_square_sum(arena.data(), begin, 0, sums.data());
  on.gpu.write_square_sum(arena.data() + begin, count, begin, sums.data() + 1);
  on.gpu.write_square_sum(alone.data(), count, 0, sums.data() + 2);
  const auto found = sums.values();
  CHECK(found[0] > 0);
  CHECK(found[1] == found[2]);
  const std::size_t ends[] = {begin, begin + count};
  on.gpu.begin_step(1, 1);
  on.gpu.decide(slots.data(), arena.data(), ends, 1.0);
  on.gpu.end_step();
  CHECK(on.gpu.outcome().gradient_norm == std::sqrt(found[0] + found[1]));
  on.gpu.begin_step(1, 1);
  on.gpu.decide_from_squares(slots.data(), {sums.data(), 2}, 1.0);
  on.gpu.end_step();
  CHECK(on.gpu.outcome().gradient_norm == std::sqrt(found[0] + found[1]));
}

TEST_CASE("a side stream and the main one wait for each other where they are told to", "[gpu operations]") {
  Both on;
  constexpr std::size_t count = 64;
  const auto side = on.gpu.open_side_stream();
  auto source = on.to_device(std::vector<float>(count, 3)), values = on.allocate<float>(count);
  muster::compute::cuda::PinnedMemory copy(on.gpu.gpu(), count * sizeof(float));
  on.gpu.accumulate(source.data(), values.data(), count, true);
  side->wait_for_main();
  on.gpu.gpu().driver().memcpy_to_host(copy.data(), reinterpret_cast<CUdeviceptr>(values.data()),
                                       count * sizeof(float), side->stream());
  side->position()->block_main();
  on.gpu.clear(values.data(), count * sizeof(float));
  on.gpu.wait();
  CHECK(static_cast<const float*>(copy.data())[count - 1] == 3);
  CHECK(values.values() == std::vector<float>(count));
}

#ifdef FAKE_CUDA_FILE
TEST_CASE("a side stream has the highest priority: a pipeline's next stage waits for it") {
  Both on;
  void* const cuda = dlopen(FAKE_CUDA_FILE, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(cuda != nullptr);
  auto* const urgent_streams = reinterpret_cast<int (*)()>(dlsym(cuda, "fake_cuda_urgent_streams"));
  const int before = urgent_streams();
  const auto side = on.gpu.open_side_stream();
  CHECK(urgent_streams() == before + 1);
  dlclose(cuda);
}
#endif

TEST_CASE("with MUSTER_CUDA_CHECK the error of a kernel or product names it") {
  if (!TestGpu::is_fake) return;
  for (const char* check : {"0", "1"}) {
    INFO(check);
    setenv("MUSTER_CUDA_CHECK", check, 1);
    Both on;
    unsetenv("MUSTER_CUDA_CHECK");
    auto values = on.to_device(std::vector<float>(1000, 1));
    auto matrix = on.to_device(random_bf16(std::size_t{64} * 64, 0));
    auto product = on.allocate<bfloat16>(std::size_t{64} * 64);
    setenv("FAKE_CUDA", "stream_error", 1);
    bool const named = check[0] == '1';
    CHECK_THROWS_WITH(on.gpu.sum_of_squares(values.data(), 1000, 0),
                      Catch::Matchers::ContainsSubstring(named ? "muster_squares on " : "computing"));
    const auto multiply = [&] {
      on.gpu.matmul({64, 64, 64}, matrix.data(), matrix.data(), nullptr, product.data());
    };
    for (const bool timing : {false, true}) {
      on.gpu.autotuner()->set_timing(timing);
      if (named)
        CHECK_THROWS_WITH(multiply(), Catch::Matchers::ContainsSubstring("a product of 64 x 64 x 64"));
    }
    setenv("FAKE_CUDA", "", 1);
  }
  setenv("MUSTER_CUDA_CHECK", "yes", 1);
  CHECK_THROWS_WITH(Both(), Catch::Matchers::ContainsSubstring("MUSTER_CUDA_CHECK is 0 or 1, not 'yes'"));
  unsetenv("MUSTER_CUDA_CHECK");
}
