// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

namespace muster {

/// The checkpoint that a user means by a folder: the folder itself, or the newest one of an output folder or
/// of its checkpoints/. Nothing if there is none.
/// @throws muster::Error(ErrorCode::system)
std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& folder);

}  // namespace muster
