// SPDX-License-Identifier: Apache-2.0
// A SPANK plugin that does nothing: the baseline cost of any plugin.
#pragma GCC visibility push(default)
extern "C" {
#include <slurm/spank.h>
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
SPANK_PLUGIN(noop, 1)

int slurm_spank_init(spank_t, int, char*[]) { return 0; }
int slurm_spank_user_init(spank_t, int, char*[]) { return 0; }
int slurm_spank_task_init(spank_t, int, char*[]) { return 0; }
int slurm_spank_exit(spank_t, int, char*[]) { return 0; }
}
#pragma GCC visibility pop
