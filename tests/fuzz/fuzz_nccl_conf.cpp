// SPDX-License-Identifier: Apache-2.0
// A user's nccl.conf.
#include "memory_file.hpp"
#include "placement/nccl_conf.hpp"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::MemoryFile const file(data, size);
  for (const auto& setting : placement::read_nccl_conf(file.path()))
    if (setting.name.empty()) std::abort();
  return 0;
}
