// SPDX-License-Identifier: Apache-2.0
// Generation by CudaCompute, against the CPU's.
#include "catch.hpp"
#include "models/gpt_decoder.hpp"
#include "models/model_memory.hpp"
#include "trainer/fakes/gpu_or_doubles.hpp"
#include "trainer/models/model_fixture.hpp"
#include "trainer/models/relative_distance.hpp"

using muster::bfloat16;
using muster::compute::Token;
using muster::compute::cuda::CudaCompute;
using muster::models::GptConfig;
using muster::models::GptDecoder;

namespace {

const GptConfig generating_gpt2{2, 2, 64, 24, 250},
    generating_llama{2, 2, 256, 24, 250, muster::models::LlamaConfig{1, 96, 500, 1e-5, false}};

/// Numbers that bfloat16 represents exactly, so that all compute with the same ones.
void fill_parameters(const GptConfig& config, std::span<float> to) {
  const auto table = muster::models::gpt_tensors(config);
  for (std::size_t i = 0; i < table.tensors.size(); ++i) {
    const auto& tensor = table.tensors[i];
    for (std::size_t j = 0; j < tensor.count; ++j) {
      const double value = tensor.initial_value + 0.1 * muster::normal(3, i, j);
      to[tensor.offset + j] = static_cast<float>(bfloat16(static_cast<float>(value)));
    }
  }
}

/// The logits behind a prompt of five tokens and each of the next two.
template <typename Real>
std::vector<double> logits(const GptConfig& config, muster::compute::Compute<Real>& compute) {
  GptDecoder<Real> decoder(config, compute, [&](std::span<float> to) { fill_parameters(config, to); });
  const std::vector<Token> tokens{7, 0, 249, 65, 65, 12, 130};
  std::vector<double> all;
  const auto read = [&](std::size_t begin, std::size_t count) {
    for (const Real logit : decoder.read(std::span(tokens).subspan(begin, count)))
      all.push_back(static_cast<double>(static_cast<muster::compute::Accurate<Real>>(logit)));
  };
  read(0, 3);
  decoder.reset();
  all.clear();
  read(0, 5);
  read(5, 1);
  read(6, 1);
  REQUIRE(all.size() == 3 * 250);
  return all;
}

}  // namespace

TEST_CASE("logits of generation on the GPU are as near to double as the CPU's in bfloat16",
          "[gpu training][generation]") {
  const GptConfig config = GENERATE(generating_gpt2, generating_llama);
  auto exact_compute = test_compute<double>(1, false);
  auto narrow_compute = test_compute<bfloat16>(1, false);
  const auto exact = logits(config, exact_compute), narrow = logits(config, narrow_compute);
  const TestGpu test_gpu;
  CudaCompute compute({});
  const std::size_t before = compute.gpu().allocated();
  {
    const GptDecoder<bfloat16> decoder(config, compute, [](std::span<float>) {});
    CHECK(compute.gpu().allocated() - before <=
          total_bytes(muster::models::decoder_memory(config, sizeof(bfloat16))));
  }
  const auto found = logits(config, compute);
  const double theirs = relative_distance(narrow.data(), exact.data(), exact.size());
  CHECK(relative_distance(found.data(), exact.data(), exact.size()) < 1.5 * theirs + 2e-3);
  CHECK(logits(config, compute) == found);
}
