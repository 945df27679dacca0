// SPDX-License-Identifier: Apache-2.0
#include "hooks/load_plugin_impl.hpp"

#include <dlfcn.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "muster/version.hpp"

extern "C" {
#include <slurm/slurm_version.h>
}

namespace muster::spank {

namespace {

constexpr char file_name[] = "spank_muster_step.so";

// Looks beside the file that contains this code. Follows links, since an administrator may have linked to one
// of the two files only.
bool find_file(char (&path)[PATH_MAX]) {
  Dl_info own;
  if (dladdr(reinterpret_cast<const void*>(&load_plugin_impl), &own) == 0 || own.dli_fname == nullptr)
    return false;
  if (realpath(own.dli_fname, path) == nullptr) return false;
  char* name = std::strrchr(path, '/') + 1;
  if (name + sizeof file_name > path + sizeof path) return false;
  std::memcpy(name, file_name, sizeof file_name);
  return true;
}

// The version number is hexadecimal, two digits per part: 0x160508 is 22.05.8.
bool is_of_this_build(const PluginHooks& hooks, const char* path, char* why, std::size_t size) {
  constexpr unsigned slurm = SLURM_VERSION_NUMBER;
  // Only a table of the same size is sure to have its members at the expected offsets.
  if (hooks.size == sizeof(PluginHooks) && hooks.slurm == slurm && std::strcmp(hooks.muster, version) == 0)
    return true;
  std::snprintf(
      why, size,
      "%s is of Muster %.40s for Slurm %u.%02u.%u, spank_muster.so of %s for %u.%02u.%u; install both "
      "files from one package",
      path, hooks.muster, hooks.slurm >> 16 & 255, hooks.slurm >> 8 & 255, hooks.slurm & 255, version,
      slurm >> 16 & 255, slurm >> 8 & 255, slurm & 255);
  return false;
}

// The C++ runtime allocates an emergency reserve when it is loaded. If it could not, and later finds no
// memory for an exception, it ends the process.
bool has_memory_for_exceptions() {
  constexpr std::size_t reserve = 128 * 1024;    // that of GCC 12's libstdc++ is 73 KB
  void* volatile memory = std::malloc(reserve);  // volatile: else compilers may remove the pair
  std::free(memory);
  return memory != nullptr;
}

}  // namespace

const PluginHooks* load_plugin_impl(char* why, std::size_t size) noexcept {
  char path[PATH_MAX];
  if (!find_file(path)) {
    std::snprintf(why, size, "%s cannot be located: the folder of spank_muster.so is not known", file_name);
    return nullptr;
  }
  void* file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) {
    const char* error = dlerror();
    std::snprintf(why, size, "%.700s; install both files of the plugin, spank_muster.so and %s",
                  error == nullptr ? path : error, file_name);
    return nullptr;
  }
  const auto* hooks = static_cast<const PluginHooks*>(dlsym(file, plugin_hooks_symbol));
  if (hooks == nullptr)
    std::snprintf(why, size, "%.700s is not Muster's; install both files from one package", path);
  else if (!has_memory_for_exceptions())
    std::snprintf(why, size, "not enough memory");
  else if (is_of_this_build(*hooks, path, why, size))
    return hooks;
  dlclose(file);
  return nullptr;
}

}  // namespace muster::spank
