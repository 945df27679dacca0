// SPDX-License-Identifier: Apache-2.0
// For SPANK plugins that stand in front of another one: in plugstack.conf, required THIS.so WORD PLUGIN
// [ARGUMENT…]. Each is one source file, which defines hand_on() and lists its hooks by HAND_ON.
#pragma once

#include <dlfcn.h>

#pragma GCC visibility push(default)
extern "C" {
#include <slurm/spank.h>
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
// The other's name: the environment variables by which Slurm hands options on contain it.
SPANK_PLUGIN(muster, 1)
}
#pragma GCC visibility pop

namespace in_front {

using Hook = int (*)(spank_t, int, char*[]);

constexpr int own_arguments = 2;  ///< a word for the plugin in front, and the path of the other

/// Calls the other plugin's hook, loading it first where that is still to be done. A plugin that cannot be
/// loaded is one line in the log, and fails.
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

}  // namespace in_front

#define HAND_ON(hook) \
  int hook(spank_t spank, int count, char* arguments[]) { return hand_on(#hook, spank, count, arguments); }
