// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace muster::picture_sets {

/// A regular file in a tar archive; its content is `bytes` bytes from `offset` on.
struct TarMember {
  std::string name;
  std::uint64_t offset = 0, bytes = 0;
};

/// The regular files of a tar archive (POSIX.1-2001, pax: ustar's headers and extended ones; GNU tar's long
/// names and binary sizes), in their order. Folders and links are left out. `path` is for the message.
/// @throws muster::Error(ErrorCode::usage): no archive, damaged, truncated, sparse files.
std::vector<TarMember> list_tar_members(std::span<const std::uint8_t> content,
                                        const std::filesystem::path& path);

}  // namespace muster::picture_sets
