// SPDX-License-Identifier: Apache-2.0
// The SPANK hooks, and all of the plugin that Slurm loads into every command and every step. This file
// depends on libc only and checks whether Muster is requested; plugin_impl.cpp does the work.
#include <cstring>

#include "hooks/activation_check.hpp"
#include "hooks/fail_task.hpp"
#include "hooks/load_plugin_impl.hpp"
#include "hooks/step_type.hpp"
#include "isolation_marker.hpp"
#include "log.hpp"

#pragma GCC visibility push(default)
extern "C" {
#include <slurm/spank.h>
// SPANK_PLUGIN defines const objects, which in C++ have internal linkage unless declared extern first.
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
SPANK_PLUGIN(muster, 1)
}
#pragma GCC visibility pop

namespace {

using namespace muster::spank;

// One process serves one step, so this is the step's state.
const PluginHooks* impl = nullptr;
char failure[1024] = "";  // why `impl` is missing although it is needed
bool strict = false;      // whether a step without `impl` must end
enum class Request { none, placement, off } request = Request::none;  // by --muster
bool needs_fallback_visibility = false;  // a task without `impl` would use its neighbours' GPUs
struct {
  int count;
  char** words;  // Slurm keeps them while the plugin is loaded
} plugin_arguments;

bool default_has(const char* word) noexcept {
  return default_contains(word, plugin_arguments.count, plugin_arguments.words);
}

bool default_places_steps() noexcept { return default_has("auto") || default_has("strict"); }

bool load_impl() noexcept {
  failure[0] = '\0';
  if (impl == nullptr) impl = load_plugin_impl(failure, sizeof failure);
  return impl != nullptr;
}

// After init.
bool load_on_demand() noexcept {
  if (impl != nullptr) return true;
  if (!load_impl()) return false;
  impl->begin(plugin_arguments.count, plugin_arguments.words);
  return true;
}

// On a node the tasks report the error, since a failing hook would drain the node. Elsewhere it is reported
// once; unless strict, the command goes on, since the nodes may have the file that is missing here.
int handle_missing_impl() noexcept {
  if (spank_context() == S_CTX_REMOTE) return 0;
  static bool reported = false;
  if (!reported) log_error("muster: %s", failure);
  reported = true;
  return strict ? -1 : 0;
}

// Slurm calls this for --muster on a command line, and on the nodes.
int on_option(int, const char* value, int) {
  const char* list = value == nullptr ? "" : value;
  if (load_on_demand()) return impl->on_option(list);
  // Without `impl` only this code reads the list. A step's own list replaces its job's.
  strict = contains_word(list, "strict") || (!contains_word(list, "auto") && default_has("strict"));
  request = contains_word(list, "off") ? Request::off : Request::placement;
  return request == Request::off ? 0 : handle_missing_impl();
}

bool register_option(spank_t spank) noexcept {
  static char name[] = "muster", argument[] = "auto|strict|off,WORD...",
              usage[] =
                  "Place each task on its GPU, cores, memory and NIC. WORDs: report, explain, json[=FILE]; "
                  "gpu=, cpu=, nic=, ranks=, env= on|off; memory=prefer|bind|off; visible=own|node; "
                  "tasks-per-gpu=K. See muster(7)";
  static spank_option option = {name, argument, usage, 2 /* the argument is optional */, 0, on_option};
  if (spank_option_register(spank, &option) == ESPANK_SUCCESS) return true;
  log_error("muster: Slurm refused the option --muster; is another plugin using that name?");
  return false;
}

bool is_set(spank_t spank, const char* variable) noexcept {
  char start[2];
  return spank_getenv(spank, variable, start, sizeof start) != ESPANK_ENV_NOEXIST;
}

// In user_init: whether an outer step, or an srun with another configuration, left variables that must be
// undone in the tasks.
bool has_outer_state(spank_t spank) noexcept {
  return is_set(spank, isolation_marker) || is_set(spank, "MUSTER_SET");
}

// As may_place() of plugin_impl.cpp.
bool would_be_placed(spank_t spank) noexcept {
  if (request != Request::none) return request == Request::placement;
  return default_places_steps() && is_set(spank, "SLURM_STEP_GPUS");
}

// The marker ends with the number of GPUs that Muster must give each task; 0: Slurm assigns them itself.
bool is_overridden_by_binding(spank_t spank) noexcept {
  char marker[64];
  if (spank_getenv(spank, isolation_marker, marker, sizeof marker) != ESPANK_SUCCESS) return false;
  const char* count = std::strrchr(marker, ':');
  return count == nullptr || std::strcmp(count, ":0") != 0;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int slurm_spank_init(spank_t spank, int count, char* arguments[]) {
  const spank_context_t context = spank_context();
  if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE) return 0;
  // A failing init would drain the node; srun, sbatch and salloc have reported the same error already.
  if (!register_option(spank)) return context == S_CTX_REMOTE ? 0 : -1;
  plugin_arguments = {count, arguments};
  strict = default_has("strict");
  const bool may_place = default_places_steps() || (context == S_CTX_LOCAL && may_be_requested_by_srun());
  if (!may_place && !is_requested_by_config(count, arguments)) return 0;
  if (!load_impl()) return may_place ? handle_missing_impl() : 0;
  if (const int error = impl->begin(count, arguments); error != 0) return error;
  return context == S_CTX_LOCAL ? impl->before_srun_options(spank) : 0;
}

int slurm_spank_local_user_init(spank_t spank, int, char*[]) {
  return impl == nullptr ? 0 : impl->local_user_init(spank);
}

int slurm_spank_user_init(spank_t spank, int, char*[]) {
  if (impl == nullptr && failure[0] == '\0' && has_outer_state(spank)) load_on_demand();
  if (impl != nullptr) return impl->user_init(spank);
  if (failure[0] == '\0') return 0;
  const bool task_step = is_task_step(spank);
  needs_fallback_visibility = task_step && is_overridden_by_binding(spank);
  if (task_step && would_be_placed(spank)) return 0;
  strict = false;
  if (!needs_fallback_visibility) failure[0] = '\0';
  return 0;
}

int slurm_spank_task_init(spank_t spank, int, char*[]) {
  if (impl != nullptr) return impl->task_init(spank);
  if (failure[0] == '\0') return 0;
  if (needs_fallback_visibility && !strict) {
    log_to_user("muster: the task cannot be given GPUs of its own (%s) and ends; use srun --muster=off",
                failure);
    exit_task();
  }
  fail_task(spank, failure, strict, true);
  return 0;
}

int slurm_spank_exit(spank_t, int, char*[]) { return impl == nullptr ? 0 : impl->exit(); }

}  // extern "C"
#pragma GCC visibility pop
