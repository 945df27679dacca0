// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>

/// Writes the checksum of an archive's first header.
inline void set_tar_checksum(std::string& archive) {
  archive.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(archive[i]);
  archive.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
}

/// Replaces the size in an archive's first header.
inline void set_tar_size(std::string& archive, const std::string& size) {
  archive.replace(124, 12, size);
  set_tar_checksum(archive);
}

/// A file of a tar archive (ustar). `name`: up to 100 bytes.
inline std::string tar_member(const std::string& name, const std::string& content, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(124, 11, fmt::format("{:011o}", content.size()));
  header[156] = type;
  header.replace(257, 8, std::string("ustar\00000", 8));
  set_tar_checksum(header);
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

inline std::string tar_end() { return std::string(1024, '\0'); }
