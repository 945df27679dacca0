// SPDX-License-Identifier: Apache-2.0
// The node's topology, read once per boot and kept in a folder of root's. Two halves: the step reads as its user,
// and what it had to find out anew is written by root when the step is over, off the way to the tasks. So all that
// is parsed is parsed without privileges, and root only writes bytes.
#pragma once

#include <sys/types.h>

#include <string>

#include "placement/node.hpp"

namespace muster::spank {

/// Where the topology is kept unless plugstack.conf says otherwise (cache=DIR).
inline constexpr const char* default_cache = "/run/muster";

/// Not thread-safe. Processes may use one folder at the same time: each sees a whole file or none.
class TopologyCache {
 public:
  /// An empty folder keeps nothing. owner: whom the folder and the file must belong to; another than root is for
  /// tests.
  explicit TopologyCache(std::string folder, uid_t owner = 0);

  /// The node below root as read_live() gives it, its stable half from the kept file where that holds. A file or
  /// folder that is another's, that others may write to, that is no regular file, too long, damaged, of another
  /// version, of another boot or of other hardware is passed over without a word. Throws placement::Error as
  /// read_live().
  placement::Node read(const std::string& root = "/");

  /// Whether read() found something that is worth keeping.
  bool has_news() const { return !news_.empty(); }

  /// As the owner: keeps it. Makes the last part of the folder's path if it is missing (0755) and replaces the
  /// file in one move. Follows no link in the folder, and writes into none that others may change. Does nothing
  /// without news. Throws std::runtime_error: one line that says what was refused.
  void keep();

 private:
  std::string kept() const;

  std::string folder_;
  uid_t owner_;
  std::string news_;
};

}  // namespace muster::spank
