// SPDX-License-Identifier: Apache-2.0
// Reads small files of /sys and /proc below a root folder. A file that cannot be read counts as absent; Error
// is thrown only when memory or file descriptors run out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cpu_set/cpu_set.hpp"

namespace muster::placement {

class Sysfs {
 public:
  explicit Sysfs(std::string root);

  /// A file's text without the white space at its end; nullopt if it cannot be read or is longer than 64 KiB.
  std::optional<std::string> text(const std::string& path) const;
  /// A file that holds one decimal number.
  std::optional<long> number(const std::string& path) const;
  /// A file that holds a CPU list; nullopt for anything else.
  std::optional<CpuSet> list(const std::string& path) const;
  /// A file that holds a CPU mask; nullopt for anything else.
  std::optional<CpuSet> mask(const std::string& path) const;
  /// The sorted names in a folder, without "." and ".."; empty if there is no such folder.
  std::vector<std::string> names(const std::string& path) const;
  /// The numbers N of the entries "prefixN" in a folder; those from CpuSet::limit on are left out.
  CpuSet numbers(const std::string& path, std::string_view prefix) const;
  /// The target of a symbolic link (not resolved); nullopt if it is not a link.
  std::optional<std::string> link(const std::string& path) const;
  bool exists(const std::string& path) const;
  /// A file's inode number; 0 if there is no such file.
  std::uint64_t inode(const std::string& path) const;

 private:
  std::string root_;  // without a trailing slash; "" is the real root
};

/// Parses the text as one decimal number; surrounding white space is allowed.
std::optional<long> to_number(std::string_view text);
/// The part after the last slash.
std::string base_name(const std::string& path);

}  // namespace muster::placement
