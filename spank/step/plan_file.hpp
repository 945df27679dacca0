// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "file/descriptor.hpp"

namespace muster::spank {

/// The parts of a plan file's name.
struct PlanFileName {
  std::string requested_path;  ///< json=FILE; empty: the default name in the working directory
  std::uint32_t job = 0;
  std::uint32_t step = 0;
  std::string host;
  bool single_node = true;  ///< the step has no other node
};

/// The path of a node's plan. In FILE %j is the job, %s the step, %N the host and %% a percent sign, as in
/// srun's own file names. In a step of several nodes each node has its own file, so a host without %N is put
/// before the extension. A final / means a folder. The default name is muster-JOB.STEP-HOST.json. Pure.
std::string plan_file_path(const PlanFileName& name);

/// The user's umask, which Slurm passes in SLURM_UMASK in octal digits; 0022 if it is not set or no umask.
mode_t parse_umask(const std::optional<std::string>& slurm_umask);

/// The root folder of the node, for tasks that plugins of Slurm may have moved into a container.
class NodeRoot {
 public:
  /// In user_init, where the caller's root is the node's: opens it.
  void hold();
  /// Whether the caller's root is not the node's.
  bool root_changed() const;
  /// Opens a folder of the node by its path without links; none and errno if there is none.
  Descriptor open_folder(const std::string& path) const;

 private:
  Descriptor root_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

/// A plan's file, named before the tasks start and written in one of them.
class PlanFile {
 public:
  PlanFile() = default;
  /// In user_init: resolves the folder's path on the node, if it exists.
  explicit PlanFile(std::string path);

  /// Writes a file of mode 0666 & ~mask as the effective user: under a temporary name beside it, renamed when
  /// it is complete. Replaces an existing regular file and follows no symbolic link. The folder is the one
  /// that the caller sees, since Slurm may have given the job its own /tmp; within a container, which has its
  /// own root folder, it is the node's.
  /// @throws std::runtime_error with one line that names the file if it cannot be written, or if something
  /// that is not a regular file has the name.
  void write(const std::string& text, mode_t mask, const NodeRoot& root) const;

 private:
  friend struct RecordAccess;
  std::string path_;
  std::string node_folder_;  // without links; empty: there is none
};

}  // namespace muster::spank
