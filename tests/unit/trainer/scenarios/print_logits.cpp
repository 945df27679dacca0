// SPDX-License-Identifier: Apache-2.0
// print_logits WEIGHTS TOKEN…: the logits of a trained model after each token, one line of numbers a token.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <exception>

#include "compute/cpu/cpu_compute.hpp"
#include "models/gpt_decoder.hpp"
#include "weights/weight_source.hpp"

int main(int argc, char** argv) {
  using namespace muster;
  if (argc < 3) return 2;
  try {
    const auto source = weights::open_weights(argv[1]);
    compute::cpu::CpuCompute<float> compute({1, false, nullptr});
    models::GptDecoder<float> decoder(source->config(), compute,
                                      [&](std::span<float> to) { source->read(to); });
    for (int i = 2; i < argc; ++i) {
      const auto token = static_cast<compute::Token>(std::atoi(argv[i]));
      fmt::print("{:.9g}\n", fmt::join(decoder.read({&token, 1}), " "));
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "print_logits: {}\n", error.what());
    return 1;
  }
  return 0;
}
