// SPDX-License-Identifier: Apache-2.0
// A slurm.conf, which may include itself: "Include" with its own descriptor number below /proc/self/fd.
#include "memory_file.hpp"
#include "slurm/node_features.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  muster::fuzz::MemoryFile const file(data, size);
  std::size_t bytes = 0;
  for (const auto& feature : muster::spank::node_features(file.path(), "n1")) {
    if (feature.empty()) std::abort();
    bytes += feature.size();
  }
  if (bytes > size) std::abort();
  return 0;
}
