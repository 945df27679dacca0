// SPDX-License-Identifier: Apache-2.0
// A .safetensors of muster-train export, whose metadata describe the model.
#include <vector>

#include "memory_file.hpp"
#include "muster/error.hpp"
#include "printable_error.hpp"
#include "weights/safetensors_weights.hpp"

using namespace muster;

namespace {

constexpr std::size_t most_parameters = 1 << 20;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::MemoryFile const file(data, size);
  try {
    weights::SafetensorsWeights const opened(file.path());
    auto const table = models::gpt_tensors(opened.config());
    if (table.arena_size > most_parameters) return 0;
    std::vector<float> parameters(table.arena_size);
    opened.read(parameters);
  } catch (const Error& error) {
    fuzz::check_printable(error);
  }
  return 0;
}
