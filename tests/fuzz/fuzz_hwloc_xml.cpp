// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of hwloc XML files: check_hwloc_xml(), then hwloc itself.
#include "memory_file.hpp"
#include "placement/topology/error.hpp"
#include "placement/topology/read.hpp"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::MemoryFile const file(data, size);
  try {
    placement::read_hwloc_xml(file.path());
  } catch (const placement::Error&) {
  }
  return 0;
}
