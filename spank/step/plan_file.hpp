// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace muster::spank {

/// What a plan's file is named after.
struct PlanFileName {
  std::string wanted;  ///< json=FILE; empty: the default name in the working directory
  std::uint32_t job = 0;
  std::uint32_t step = 0;
  std::string host;
  bool one_node = true;  ///< the step has no other node
};

/// Where a node's plan goes. In FILE %j is the job, %s the step, %N the host and %% a percent sign, as in
/// srun's own file names; of several nodes each has a file of its own, so where %N is missing the host is put
/// before the extension. An ending / means a folder. The default name is muster-JOB.STEP-HOST.json. Pure.
std::string plan_file_path(const PlanFileName& name);

/// The user's umask as Slurm hands it on in SLURM_UMASK, in octal digits; 0022 when it is not there or no
/// umask.
mode_t user_umask(const std::optional<std::string>& slurm_umask);

/// The root folder of the node, for tasks that Slurm's plugins may have moved into a container.
class NodeRoot {
 public:
  NodeRoot() = default;
  NodeRoot(const NodeRoot&) = delete;
  NodeRoot& operator=(const NodeRoot&) = delete;
  ~NodeRoot();

  /// In user_init: the caller's root is the node's.
  void hold();
  /// Whether the caller's root is another.
  bool is_elsewhere() const;
  /// A folder of the node's by its path without links; -1 and errno when there is none.
  int open_folder(const std::string& path) const;

 private:
  int descriptor_ = -1;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

/// A plan's file, named before the tasks start and written in one of them.
class PlanFile {
 public:
  PlanFile() = default;
  /// In user_init: finds out where the folder is on the node, where there is one.
  explicit PlanFile(std::string path);

  /// Writes a file of mode 0666 & ~mask as the effective user: under a temporary name beside it, renamed when
  /// it is complete. An existing regular file is replaced, a symbolic link is not followed. The folder is the
  /// one that the caller sees, where Slurm may have given the job a /tmp of its own; only within a container,
  /// which has a root folder of its own, it is the node's.
  /// @throws std::runtime_error with one line that names the file when it cannot be written, or when
  /// something that is not a regular file has the name.
  void write(const std::string& text, mode_t mask, const NodeRoot& root) const;

 private:
  friend struct RecordAccess;
  std::string path_;
  std::string node_folder_;  // without links; empty: there is none
};

}  // namespace muster::spank
