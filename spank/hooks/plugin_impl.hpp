// SPDX-License-Identifier: Apache-2.0
// The plugin is two files: spank_muster.so, which Slurm loads into every srun and every step, and
// spank_muster_step.so beside it, which the first loads where somebody asks for something. This is what the
// second offers the first: its hooks, under the one name that it exports.
#pragma once

struct spank_handle;

namespace muster::spank {

struct StepPart {
  // What tells a table of another build; these three stay in their places.
  unsigned size;       ///< sizeof(StepPart)
  unsigned slurm;      ///< SLURM_VERSION_NUMBER
  const char* muster;  ///< muster::version

  // None lets an exception out. Those that fail have said why; on a node none fails, since that drains it.
  int (*begin)(int count, char* arguments[]);  ///< first of all: the plugin's arguments
  int (*before_srun_options)(spank_handle*);   ///< in srun's init
  int (*on_option)(const char* list);          ///< of --muster=LIST
  int (*local_user_init)(spank_handle*);
  int (*user_init)(spank_handle*);
  int (*task_init)(spank_handle*);
  int (*exit)();
};

constexpr const char* step_part_symbol = "muster_step_part";

}  // namespace muster::spank
