// SPDX-License-Identifier: Apache-2.0
// The kept topology: with its first line, and the body alone, since no damaged text has the right checksum.
#include "placement/topology/topology_snapshot.hpp"

using namespace muster::placement;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view const text(reinterpret_cast<const char*>(data), size);
  NodeIdentity const identity{"boot", 7};
  read_record(text, identity);
  if (auto const node = read_record_body(text, identity)) {
    // What is taken can be kept again, and is the same then.
    auto const again = write_record(*node, identity);
    if (!again.empty() && !read_record(again, identity)) std::abort();
  }
  return 0;
}
