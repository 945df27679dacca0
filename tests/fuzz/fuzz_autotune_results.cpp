// SPDX-License-Identifier: Apache-2.0
// A checkpoint's autotune.json.
#include <cstdint>
#include <cstdlib>
#include <stdexcept>

#include "compute/cuda/autotune_results.hpp"
#include "printable_error.hpp"

using namespace muster::compute::cuda;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    AutotuneResults const results = parse_autotune_results({reinterpret_cast<const char*>(data), size});
    if (parse_autotune_results(write_autotune_results(results)) != results) std::abort();
  } catch (const std::runtime_error& error) {
    fuzz::check_printable(error);
  }
  return 0;
}
