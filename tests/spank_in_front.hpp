// SPDX-License-Identifier: Apache-2.0
// For SPANK plugins that wrap another plugin: in plugstack.conf, required THIS.so WORD PLUGIN [ARGUMENT…].
// Each wrapper is one source file that defines forward_hook() and lists its hooks by FORWARD_HOOK.
#pragma once

#include <dlfcn.h>

#pragma GCC visibility push(default)
extern "C" {
#include <slurm/spank.h>
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
// The wrapped plugin's name: Slurm's environment variables for its options contain it.
SPANK_PLUGIN(muster, 1)
}
#pragma GCC visibility pop

namespace wrapper {

using Hook = int (*)(spank_t, int, char*[]);

constexpr int own_arguments = 2;  ///< a word for the wrapper, and the path of the wrapped plugin

/// Calls the wrapped plugin's hook, and loads the plugin first if necessary. A plugin that cannot be loaded
/// is one line in the log, and fails.
inline int call(const char* hook, spank_t spank, int count, char* arguments[]) {
  static void* plugin = nullptr;
  if (plugin == nullptr) plugin = dlopen(arguments[1], RTLD_LAZY | RTLD_LOCAL);
  if (plugin == nullptr) {
    slurm_error("%s", dlerror());
    return -1;
  }
  const auto found = reinterpret_cast<Hook>(dlsym(plugin, hook));
  return found == nullptr ? 0 : found(spank, count - own_arguments, arguments + own_arguments);
}

}  // namespace wrapper

#define FORWARD_HOOK(hook)                                \
  int hook(spank_t spank, int count, char* arguments[]) { \
    return forward_hook(#hook, spank, count, arguments);  \
  }
