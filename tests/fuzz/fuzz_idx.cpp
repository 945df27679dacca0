// SPDX-License-Identifier: Apache-2.0
// An IDX file; the first byte is the number of dimensions that the reader expects, 1 to 4.
#include <cstdlib>

#include "data/idx.hpp"
#include "muster/error.hpp"
#include "printable_error.hpp"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t dimensions = data[0] % 4 + 1u;
  try {
    const auto extents = data::idx_extents({data + 1, size - 1}, dimensions, "train-images-idx3-ubyte");
    std::uint64_t bytes = 4 + 4 * dimensions, product = 1;
    for (const auto extent : extents) product *= extent;
    if (extents.size() != dimensions || bytes + product != size - 1) std::abort();
  } catch (const Error& error) {
    fuzz::check_printable(error);
  }
  return 0;
}
