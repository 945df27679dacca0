// SPDX-License-Identifier: Apache-2.0
// The plugin has two files. Slurm loads spank_muster.so into every srun and every step; that file loads
// spank_muster_step.so beside it if Muster is requested. This header is the interface between them: a table
// of hooks, under the only name that spank_muster_step.so exports.
#pragma once

struct spank_handle;

namespace muster::spank {

struct PluginHooks {
  // These three identify a table of another build, so they never move.
  unsigned size;       ///< sizeof(PluginHooks)
  unsigned slurm;      ///< SLURM_VERSION_NUMBER
  const char* muster;  ///< muster::version

  // No hook lets an exception out. A hook that fails has logged the reason; on a node none fails, since that
  // would drain the node.
  int (*begin)(int count, char* arguments[]);  ///< called first, with the plugin's arguments
  int (*before_srun_options)(spank_handle*);   ///< in srun's init
  int (*on_option)(const char* list);          ///< for --muster=LIST
  int (*local_user_init)(spank_handle*);
  int (*user_init)(spank_handle*);
  int (*task_init)(spank_handle*);
  int (*exit)();
};

constexpr const char* plugin_hooks_symbol = "muster_step_part";

}  // namespace muster::spank
