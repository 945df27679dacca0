// SPDX-License-Identifier: Apache-2.0
// The node's topology, read once per boot and kept in a folder of root's. Two halves: the step reads without
// privileges, beside what its user can change; where it finds nothing kept, root reads the machine itself
// when the step is over, off the way to the tasks, and keeps that. So nothing that a user had a hand in is
// kept for others.
#pragma once

#include <sys/types.h>

#include <string>

#include "placement/topology/node.hpp"

namespace muster::spank {

/// Where the topology is kept unless plugstack.conf says otherwise (cache=DIR).
inline constexpr const char* default_cache = "/run/muster";

/// Not thread-safe. Processes may use one folder at the same time: each sees a whole file or none.
class TopologyCache {
 public:
  /// An empty folder keeps nothing. owner: whom the folder and the file must belong to; another than root is
  /// for tests.
  explicit TopologyCache(std::string folder, uid_t owner = 0);

  /// The node below root as read_live() gives it, its stable half from the kept file where that holds. A file
  /// or folder that is another's, that others may write to, that is no regular file, too long, damaged, of
  /// another version, of another boot or of other hardware is passed over without a word. Throws
  /// placement::Error as read_live().
  placement::Node read(const std::string& root = "/");

  /// Whether read() found something that is worth keeping and is not kept.
  bool has_news() const { return has_news_; }

  /// As the owner: reads the machine below root, and nothing but /sys and /proc, and keeps what it found
  /// unless that is kept already. Makes the last part of the folder's path if it is missing (0755) and
  /// replaces the file in one move. Follows no link in the folder, and writes into none that others may
  /// change. Throws std::runtime_error: one line that says what was refused; placement::Error as read_live().
  void renew(const std::string& root = "/") const;

 private:
  std::string kept() const;
  void keep(const std::string& record) const;

  std::string folder_;
  uid_t owner_;
  bool has_news_ = false;
};

}  // namespace muster::spank
