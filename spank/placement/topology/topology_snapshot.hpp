// SPDX-License-Identifier: Apache-2.0
// The stable half of a node (read_stable()) as text that can be kept, and by what it is known to be still
// true. The text is one line that names the format and carries a checksum, then JSON, which an administrator
// may look at but not edit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "placement/topology/node.hpp"

namespace muster::placement {

/// What must be the same for a record to hold. Cheap to read: no file of it belongs to a single CPU, and none
/// makes a driver ask its device.
struct NodeIdentity {
  std::string boot;             ///< the kernel's boot id
  std::uint64_t inventory = 0;  ///< over the PCI addresses present, the CPUs and NUMA domains online, the
                                ///< NVIDIA driver's version and its GPUs

  friend bool operator==(const NodeIdentity&, const NodeIdentity&) = default;
};

/// The identity of the machine below root, as read_live() takes it. An empty boot id means that nothing may
/// be kept. Throws Error only when memory or descriptors run short.
NodeIdentity read_identity(const std::string& root = "/");

/// The record of what read_stable() gave. Read the identity before the node, so that a device that comes in
/// between makes the record stale and not wrong. Empty when the node must not be kept: it has no boot id, or
/// a GPU that the driver has not named yet.
std::string write_record(const Node& node, const NodeIdentity& identity);

/// The node of a record, not finished; nullopt unless the text is whole and unchanged, was written by this
/// version of Muster and for this identity. Never throws, whatever the bytes are.
std::optional<Node> read_record(std::string_view text, const NodeIdentity& identity) noexcept;

/// The JSON of a record without its first line: what read_record() calls when the checksum is right. For
/// tests, since no damaged text gets that far. Never throws.
std::optional<Node> read_record_body(std::string_view json, const NodeIdentity& identity) noexcept;

}  // namespace muster::placement
