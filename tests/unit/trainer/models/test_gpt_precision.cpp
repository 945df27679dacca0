// SPDX-License-Identifier: Apache-2.0
// Compares the paths in float and bfloat16 (oneDNN if it was found, each instruction set, several threads)
// with double.
#include "catch.hpp"
#include "model_fixture.hpp"
#include "relative_distance.hpp"

using muster::compute::cpu::CpuCompute;
using muster::models::Gpt;
using muster::models::GptConfig;
using muster::models::LlamaConfig;

namespace {

const GptConfig gpt2{2, 4, 64, 48}, llama{2, 4, 64, 48, 256, LlamaConfig{2, 96}};
constexpr int batch = 3;

struct Result {
  double loss;
  std::vector<double> gradients;
};

/// `rounded`: all parameters are exactly representable in bfloat16.
template <typename Real>
Result run(const GptConfig& config, muster::compute::Compute<Real>& compute, bool rounded = false) {
  Gpt<Real> model(config, batch, compute);
  initialize_boldly(model.tensors(), 3);
  if (rounded) {
    for (auto& parameter : model.tensors().parameters())
      parameter = static_cast<float>(muster::bfloat16(static_cast<float>(parameter)));
  }
  model.tensors().round_parameters(compute);
  const auto tokens = test_text(batch * 48, 1), targets = test_text(batch * 48, 2);
  Result result;
  result.loss = model.loss_and_gradients(tokens.data(), targets.data(), batch, 48,
                                         typename Gpt<Real>::Sum(1.0 / (batch * 48)));
  result.gradients.assign(model.tensors().gradients().begin(), model.tensors().gradients().end());
  return result;
}

}  // namespace

TEST_CASE("float agrees with double, tensor by tensor", "[precision]") {
  const GptConfig config = GENERATE(gpt2, llama);
  auto exact_compute = test_compute<double>();
  const Result exact = run(config, exact_compute);
  const auto table = muster::models::gpt_tensors(config);
  const auto check = [&](CpuCompute<float>::Options options) {
    CpuCompute<float> compute(options);
    const Result result = run(config, compute);
    CAPTURE(compute.describe());
    CHECK(result.loss == Approx(exact.loss).epsilon(1e-5));
    for (const auto& tensor : table.tensors) {
      CAPTURE(tensor.name);
      // Relative L2 distance; float's 24 bits give about 1e-6 after the sums of this model.
      CHECK(relative_distance(&result.gradients[tensor.offset], &exact.gradients[tensor.offset],
                              tensor.count) < 3e-5);
    }
  };
  SECTION("oneDNN") { check({1, true, nullptr}); }
  SECTION("two threads") { check({2, true, nullptr}); }
  for (const char* set : {"baseline", "avx2", "avx512"}) {
    const auto* kernels = muster::compute::cpu::find_kernels<float>(set);
    if (kernels) DYNAMIC_SECTION("own matrix product, " << set) {
        check({2, false, kernels});
      }
  }
}

TEST_CASE("bfloat16 agrees with double as far as its activations' rounding lets it, tensor by tensor",
          "[precision]") {
  const GptConfig config = GENERATE(gpt2, llama);
  auto exact_compute = test_compute<double>();
  const Result exact = run(config, exact_compute, true);
  const auto table = muster::models::gpt_tensors(config);
  const auto check = [&](CpuCompute<muster::bfloat16>::Options options) {
    CpuCompute<muster::bfloat16> compute(options);
    const Result result = run(config, compute, true);
    CAPTURE(compute.describe());
    // With exact parameters, the error is the rounding of activations and of their gradients, each by at most
    // 2^-8 of its size; the residual stream and its gradient are not rounded. A gradient depends on at most 7
    // of these roundings per layer forward, 8 backward and 4 outside the layers. If they were independent and
    // each as large as possible, they would add up to sqrt(34) 2^-8 = 2.3%; LayerNorm and softmax may
    // increase it somewhat.
    CHECK(result.loss == Approx(exact.loss).epsilon(0.01));
    double largest = 0;
    for (const auto& tensor : table.tensors) {
      CAPTURE(tensor.name);
      const double distance =
          relative_distance(&result.gradients[tensor.offset], &exact.gradients[tensor.offset], tensor.count);
      CHECK(distance < 0.03);
      largest = std::max(largest, distance);
    }
    CHECK(largest > 1e-3);  // otherwise it did not compute in bfloat16
  };
  SECTION("oneDNN") { check({1, true, nullptr}); }
  SECTION("two threads") { check({2, true, nullptr}); }
  for (const char* set : {"baseline", "avx2", "avx512", "avx512_bf16"}) {
    const auto* kernels = muster::compute::cpu::find_kernels<muster::bfloat16>(set);
    if (kernels) DYNAMIC_SECTION("own matrix product, " << set) {
        check({2, false, kernels});
      }
  }
}

TEST_CASE("threads do not change a bit without oneDNN", "[precision]") {
  const GptConfig config = GENERATE(gpt2, llama);
  CpuCompute<float> one({1, false, nullptr}), three({3, false, nullptr});
  const Result a = run(config, one), b = run(config, three);
  CHECK(a.loss == b.loss);
  CHECK(a.gradients == b.gradients);
}
