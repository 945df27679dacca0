// SPDX-License-Identifier: Apache-2.0
// Reading small files of /sys and /proc below a root folder. What cannot be read is absent; only when
// memory or descriptors run short is an Error thrown.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "placement/topology/cpu_set.hpp"

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
  /// Names in a folder without "." and "..", sorted; empty if there is none.
  std::vector<std::string> names(const std::string& path) const;
  /// Where a symbolic link points (not resolved); nullopt if it is none.
  std::optional<std::string> link(const std::string& path) const;
  bool exists(const std::string& path) const;
  /// The number that the file system gave a file; 0 if there is none.
  std::uint64_t inode(const std::string& path) const;

 private:
  std::string root_;  // without a slash at its end; "" is the real root
};

/// text as one decimal number, spaces around it allowed.
std::optional<long> to_number(std::string_view text);
/// What comes after the last slash.
std::string base_name(const std::string& path);

}  // namespace muster::placement
