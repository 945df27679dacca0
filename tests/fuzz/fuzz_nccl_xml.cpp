// SPDX-License-Identifier: Apache-2.0
// Fuzzes the readers of NCCL topology files.
#include "memory_file.hpp"
#include "placement/topology/error.hpp"
#include "placement/topology/read.hpp"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::MemoryFile const file(data, size);
  try {
    placement::read_nccl_xml(file.path());
  } catch (const placement::Error&) {
  }
  try {
    placement::Node live;
    placement::override_locality(live, placement::read_nccl_locality(file.path()));
  } catch (const placement::Error&) {
  }
  return 0;
}
