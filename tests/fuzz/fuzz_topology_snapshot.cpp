// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of topology snapshots: whole, and without the first line, because no damaged text has the
// right checksum.
#include "placement/topology/live/topology_snapshot.hpp"

using namespace muster::placement;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view const text(reinterpret_cast<const char*>(data), size);
  NodeIdentity const identity{"boot", 7};
  read_snapshot(text, identity);
  if (auto const node = read_snapshot_body(text, identity)) {
    // An accepted node can be written and read again.
    auto const again = write_snapshot(*node, identity);
    if (!again.empty() && !read_snapshot(again, identity)) std::abort();
  }
  return 0;
}
