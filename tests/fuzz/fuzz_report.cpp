// SPDX-License-Identifier: Apache-2.0
// Fuzzes the parser of a node's report, which srun receives from the network.
#include "placement/report/report.hpp"
#include "placement/topology/error.hpp"

using namespace muster::placement;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    auto const report = read_node_report({reinterpret_cast<const char*>(data), size});
    read_node_report(write_node_report(report));
  } catch (const Error&) {
  }
  return 0;
}
