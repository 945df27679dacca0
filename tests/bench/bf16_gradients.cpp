// SPDX-License-Identifier: Apache-2.0
// For tests/bench/bf16_error: the gradients of a GPT that computes in bfloat16. Usage: bench_bf16_gradients
// FOLDER LAYERS WIDTH BATCH CONTEXT SEED. The seed is that of the initial weights and of the random tokens.
// Writes to FOLDER run.json, weights.safetensors, tokens.bin (32 bits each) and gradients.safetensors.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "compute/cpu/cpu_compute.hpp"
#include "model_files.hpp"
#include "models/gpt.hpp"
#include "muster/philox.hpp"

using namespace muster;
using models::GptConfig;

namespace {

constexpr int vocabulary = 256, head_width = 64;

void write_inputs(const std::filesystem::path& folder, const GptConfig& config, int batch,
                  const std::vector<compute::Token>& tokens) {
  write_tokens(folder / "tokens.bin", tokens);
  std::ofstream(folder / "run.json") << nlohmann::json{
      {"layers", config.layers},   {"heads", config.heads},           {"width", config.width},
      {"context", config.context}, {"vocabulary", config.vocabulary}, {"batch", batch}};
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 7) return 2;
  const std::filesystem::path folder = argv[1];
  const int layers = std::atoi(argv[2]), width = std::atoi(argv[3]), batch = std::atoi(argv[4]),
            context = std::atoi(argv[5]);
  const std::uint64_t seed = std::strtoull(argv[6], nullptr, 10);
  const GptConfig config{layers, width / head_width, width, context, vocabulary};
  compute::cpu::CpuCompute<bfloat16> compute({1, true, nullptr});
  models::Gpt<bfloat16> gpt(config, batch, compute);
  auto& tensors = gpt.tensors();
  tensors.initialize(seed);
  // Parameters that bfloat16 holds exactly, so that only the arithmetic differs.
  for (float& parameter : tensors.parameters()) parameter = static_cast<float>(bfloat16(parameter));
  tensors.round_parameters(compute);
  std::vector<compute::Token> tokens(static_cast<std::size_t>(batch * context) + 1);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<compute::Token>(uniform_bits(seed, 1, i) % vocabulary);
  const double loss = gpt.loss_and_gradients(tokens.data(), tokens.data() + 1, batch, context,
                                             1.0f / static_cast<float>(batch * context));
  write_inputs(folder, config, batch, tokens);
  write_tensors(folder / "weights.safetensors", tensors.table(), tensors.parameters());
  write_tensors(folder / "gradients.safetensors", tensors.table(), tensors.gradients());
  std::printf("muster %s: loss %.6f\n", compute.describe().c_str(), loss / (batch * context));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_bf16_gradients: %s\n", error.what());
  return 1;
}
