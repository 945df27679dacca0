// SPDX-License-Identifier: Apache-2.0
// Whole passes of a GPT by CudaCompute, against the CPU's.
#include "catch.hpp"
#include "optimizer/optimizer.hpp"
#include "trainer/fakes/gpu_or_doubles.hpp"
#include "trainer/models/model_fixture.hpp"
#include "trainer/models/relative_distance.hpp"

using muster::bfloat16;
using muster::compute::cuda::CudaCompute;
using muster::models::Gpt;
using muster::models::GptConfig;

namespace {

const GptConfig gpt2{2, 1, 64, 70, 250},
    llama{2, 2, 128, 70, 250, muster::models::LlamaConfig{1, 96, 500, 1e-5, false}};
constexpr int batch = 1, length = 70;

struct Pass {
  double loss = 0;
  std::vector<double> gradients;
};

std::vector<muster::compute::Token> text(std::uint64_t seed) {
  auto tokens = test_text(batch * length, seed);
  tokens[3] = 249;  // the last token of the vocabulary
  return tokens;
}

template <typename Real>
Pass pass(const GptConfig& config, muster::compute::Compute<Real>& compute) {
  using Sum = muster::compute::Accurate<Real>;
  Gpt<Real> model(config, batch, compute);
  // Numbers that bfloat16 represents exactly, so that all compute with the same ones.
  const std::size_t size = model.tensors().parameters().size();
  std::vector<Sum> parameters(size);
  for (std::size_t i = 0; i < model.tensors().table().tensors.size(); ++i) {
    const auto& tensor = model.tensors().table().tensors[i];
    for (std::size_t j = 0; j < tensor.count; ++j) {
      const double value = tensor.initial_value + 0.1 * muster::normal(3, i, j);
      parameters[tensor.offset + j] = Sum(static_cast<float>(bfloat16(static_cast<float>(value))));
    }
  }
  compute.memory().copy_in(model.tensors().parameters().data(), parameters.data(), size * sizeof(Sum));
  model.tensors().round_parameters(compute);
  Pass result;
  result.loss =
      model.loss_and_gradients(text(1).data(), text(2).data(), batch, length, Sum(1.0 / (batch * length)));
  std::vector<Sum> gradients(size);
  compute.memory().copy_out(gradients.data(), model.tensors().gradients().data(), size * sizeof(Sum));
  result.gradients.assign(gradients.begin(), gradients.end());
  return result;
}

}  // namespace

TEST_CASE("a GPT's loss and gradients on the GPU are as near to double as the CPU's in bfloat16",
          "[gpu training]") {
  const GptConfig config = GENERATE(gpt2, llama);
  auto exact_compute = test_compute<double>();
  auto narrow_compute = test_compute<bfloat16>();
  const Pass exact = pass(config, exact_compute), narrow = pass(config, narrow_compute);
  const auto table = muster::models::gpt_tensors(config);
  for (const char* mode : {"", "plain"}) {
    CAPTURE(mode);
    const TestGpu test_gpu(mode);
    CudaCompute compute({});
    const Pass found = pass(config, compute);
    CHECK(found.loss == Approx(exact.loss).epsilon(2e-3));
    for (const auto& tensor : table.tensors) {
      CAPTURE(tensor.name);
      const double* const expected = &exact.gradients[tensor.offset];
      const double theirs = relative_distance(&narrow.gradients[tensor.offset], expected, tensor.count);
      CHECK(relative_distance(&found.gradients[tensor.offset], expected, tensor.count) < 1.5 * theirs + 2e-3);
    }
    // The gap behind the token table stays zero.
    for (std::size_t i = table.tensors[0].count; i < table.tensors[1].offset; ++i)
      REQUIRE(found.gradients[i] == 0);
    if (*mode == '\0') CHECK(pass(config, compute).gradients == found.gradients);
  }
}

TEST_CASE("the fastest timed algorithms give the same results as cuBLASLt's first", "[gpu training]") {
  const TestGpu test_gpu;
  const auto product = [](bool timing) {
    CudaCompute compute({});
    compute.autotuner()->set_timing(timing);
    const std::vector<bfloat16> numbers(64 * 64, bfloat16(0.25f));
    OnDevice<bfloat16> a(compute.memory(), numbers), c(compute.memory(), 64 * 64);
    compute.matmul({64, 64, 64}, a.data(), a.data(), nullptr, c.data());
    CHECK(compute.autotuner()->timed() == (timing ? 1 : 0));
    return c.values()[70].bits;
  };
  CHECK(product(true) == product(false));
}

TEST_CASE("a launch whose arguments are not its kernel's parameters is refused", "[gpu training]") {
  const TestGpu test_gpu;
  CudaCompute compute({});
  if (compute.gpu().driver().function_get_param_info == nullptr) return;  // before CUDA 12.4
  OnDevice<float> from(compute.memory(), 32);
  OnDevice<bfloat16> to(compute.memory(), 32);
  using muster::compute::cuda::Kernel;
  CHECK_THROWS_WITH(compute.gpu().launch(Kernel::round, {1}, 32, 0, from.data(), to.data()),
                    Catch::Matchers::StartsWith("the kernel muster_round: its 3 parameters have ") &&
                        Catch::Matchers::ContainsSubstring("and the 2 arguments of its launch 8, 8:"));
}

TEST_CASE("when the GPU cannot do an operation, an error says so", "[gpu training]") {
  if (TestGpu::is_fake) {
    const TestGpu old("", "old");
    CHECK_THROWS_WITH(CudaCompute({}),
                      Catch::Matchers::ContainsSubstring("compute capability 7: training needs 8.0"));
    const TestGpu without;
    setenv("MUSTER_CUBLASLT_LIBRARY", "/nowhere/libcublasLt.so", 1);
    CHECK_THROWS_WITH(CudaCompute({}),
                      Catch::Matchers::ContainsSubstring("/nowhere/libcublasLt.so") &&
                          Catch::Matchers::ContainsSubstring("the trainer needs cuBLASLt for --device=cuda"));
  }
  const TestGpu test_gpu;
  CudaCompute compute({});
  Gpt<bfloat16> model({1, 8, 128, 16, 250}, 1, compute);
  const auto tokens = test_text(17);
  CHECK_THROWS_WITH(model.loss(tokens.data(), tokens.data() + 1, 1, 16),
                    Catch::Matchers::ContainsSubstring(
                        "attention heads are 32, 64, 96 or 128 wide, and not 16: pass --device=cpu"));
}
