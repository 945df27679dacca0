// SPDX-License-Identifier: Apache-2.0
// The static half of a node (read_static()) as text, and the identity that shows whether a snapshot is still
// valid. The text is one line with the format and a checksum, then JSON that administrators may read, not
// edit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "placement/topology/node.hpp"

namespace muster::placement {

/// A snapshot is valid as long as this is unchanged. Cheap to read: it needs no per-CPU file, and no file
/// that makes a driver query its device.
struct NodeIdentity {
  std::string boot;  ///< the kernel's boot id
  /// Checksum of the PCI addresses present, the CPUs and NUMA domains online, the NVIDIA driver's version and
  /// its GPUs.
  std::uint64_t inventory = 0;

  friend bool operator==(const NodeIdentity&, const NodeIdentity&) = default;
};

/// The identity of the machine below root (see read_live()). With an empty boot id, nothing may be cached.
/// Throws Error only when memory or file descriptors run out.
NodeIdentity read_identity(const std::string& root = "/");

/// The snapshot of a result of read_static(). Read the identity before the node, so that a device that
/// appears in between makes the snapshot stale and not wrong. Empty if the node must not be cached: it has no
/// boot id, or a GPU whose UUID the driver does not know yet.
std::string write_snapshot(const Node& node, const NodeIdentity& identity);

/// The node of a snapshot, not finished; nullopt unless the text is complete and unchanged, and was written
/// by this version of Muster for this identity. Never throws, whatever the bytes are.
std::optional<Node> read_snapshot(std::string_view text, const NodeIdentity& identity) noexcept;

/// Reads a snapshot without its first line; read_snapshot() calls it when the checksum is right. Public for
/// tests, because no damaged text gets that far. Never throws.
std::optional<Node> read_snapshot_body(std::string_view json, const NodeIdentity& identity) noexcept;

}  // namespace muster::placement
