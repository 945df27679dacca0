// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/find_checkpoint.hpp"

#include "checkpoint/checkpoint_folder.hpp"

namespace muster {

namespace fs = std::filesystem;

std::optional<fs::path> find_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  if (Checkpoint::is_checkpoint(folder)) return folder;
  for (const fs::path& path : {folder / "checkpoints", folder}) {
    if (!fs::is_directory(path, ignored)) continue;
    const CheckpointFolder checkpoints(path, 1);
    if (const auto steps = checkpoints.steps(); !steps.empty())
      return checkpoints.checkpoint_path(steps.front());
  }
  return std::nullopt;
}

}  // namespace muster
