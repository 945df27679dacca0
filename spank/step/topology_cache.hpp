// SPDX-License-Identifier: Apache-2.0
// The node's topology, read once per boot and cached in a folder of root's. Two halves: the step reads the
// cache without privileges, in a process whose input its user can change. If the cache is empty, root reads
// the machine itself after the step, so that tasks do not wait, and stores the result. So the cache never
// holds data that a user could influence.
#pragma once

#include <sys/types.h>

#include <string>

#include "placement/topology/node.hpp"

namespace muster::spank {

/// The folder of the cache, unless plugstack.conf has cache=DIR.
inline constexpr const char* default_cache = "/run/muster";

/// Not thread-safe. Several processes may use one folder at the same time: each sees a whole file or none.
class TopologyCache {
 public:
  /// An empty folder turns the cache off. owner: the required owner of the folder and the file; tests use
  /// another than root.
  explicit TopologyCache(std::string folder, uid_t owner = 0);

  /// The node below root as read_live() returns it, its stable half from the cached file if that is valid. A
  /// file or folder that has another owner, is writable by others, is no regular file, too long, damaged, or
  /// from another version, another boot or other hardware is silently skipped.
  /// @throws placement::Error as read_live().
  placement::Node read(const std::string& root = "/");

  /// Whether read() found a topology that should be stored and is not in the cache.
  bool is_dirty() const { return is_dirty_; }

  /// As the owner: reads the machine below root, only /sys and /proc, and stores the result unless the cache
  /// has it already. Makes the last part of the folder's path if it is missing (0755) and replaces the file
  /// in one rename. Follows no link in the folder, and writes into no folder that others may change.
  /// @throws std::runtime_error with one line on what failed; placement::Error as read_live().
  void renew(const std::string& root = "/") const;

 private:
  std::string load() const;
  void store(const std::string& record) const;

  std::string folder_;
  uid_t owner_;
  bool is_dirty_ = false;
};

}  // namespace muster::spank
