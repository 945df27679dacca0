// SPDX-License-Identifier: Apache-2.0
// The SPANK hooks, and all of the plugin that Slurm loads into every command and every step: whether anybody
// asks for something is found out here, with libc alone; what is then to be done stands in step_part.cpp.
#include <cstring>

#include "hooks/activation_check.hpp"
#include "hooks/fail_task.hpp"
#include "hooks/load_plugin_impl.hpp"
#include "hooks/step_type.hpp"
#include "lift_mark.hpp"
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
const StepPart* rest = nullptr;
char failure[1024] = "";       // why the rest is not there although it is needed
bool strict = false;           // whether a step without it must end
bool needs_own_share = false;  // a task without it would use its neighbours' GPUs
struct {
  int count;
  char** words;  // Slurm keeps them as long as the plugin
} own_arguments;

bool load() noexcept {
  failure[0] = '\0';
  if (rest == nullptr) rest = load_step_part(failure, sizeof failure);
  return rest != nullptr;
}

// After init.
bool load_late() noexcept {
  if (rest != nullptr) return true;
  if (!load()) return false;
  rest->begin(own_arguments.count, own_arguments.words);
  return true;
}

// On a node an error waits for the tasks, since a failing hook drains it. Elsewhere it is said once; the
// nodes may have what is missing here.
int go_without() noexcept {
  if (spank_context() == S_CTX_REMOTE) return 0;
  static bool said = false;
  if (!said) log_error("muster: %s", failure);
  said = true;
  return strict ? -1 : 0;
}

// Slurm calls it for --muster on a command line, and on the nodes.
int on_option(int, const char* value, int) {
  const char* list = value == nullptr ? "" : value;
  if (load_late()) return rest->on_option(list);
  // Without the rest nobody else reads the list. A step's own replaces its job's.
  strict = lists(list, "strict") ||
           (!lists(list, "auto") && default_is_strict(own_arguments.count, own_arguments.words));
  if (!lists(list, "off")) return go_without();
  failure[0] = '\0';
  return 0;
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

// In user_init: what an outer step or an srun that is set up otherwise has left for the tasks to be settled.
bool left_something(spank_t spank) noexcept {
  return is_set(spank, lift_mark) || is_set(spank, "MUSTER_SET");
}

// The mark ends with the number of GPUs that each task is to be given; 0: Slurm itself does.
bool is_lifted_by_binding(spank_t spank) noexcept {
  char mark[64];
  if (spank_getenv(spank, lift_mark, mark, sizeof mark) != ESPANK_SUCCESS) return false;
  const char* count = std::strrchr(mark, ':');
  return count == nullptr || std::strcmp(count, ":0") != 0;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int slurm_spank_init(spank_t spank, int count, char* arguments[]) {
  const spank_context_t context = spank_context();
  if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE) return 0;
  // On a node a failing init drains it; srun, sbatch and salloc have reported the same mistake already.
  if (!register_option(spank)) return context == S_CTX_REMOTE ? 0 : -1;
  own_arguments = {count, arguments};
  strict = default_is_strict(count, arguments);
  if (!arguments_ask(count, arguments) && !(context == S_CTX_LOCAL && srun_may_ask())) return 0;
  if (!load()) return go_without();
  if (const int error = rest->begin(count, arguments); error != 0) return error;
  return context == S_CTX_LOCAL ? rest->before_srun_options(spank) : 0;
}

int slurm_spank_local_user_init(spank_t spank, int, char*[]) {
  return rest == nullptr ? 0 : rest->local_user_init(spank);
}

int slurm_spank_user_init(spank_t spank, int, char*[]) {
  if (rest == nullptr && failure[0] == '\0' && left_something(spank)) load_late();
  if (rest != nullptr) return rest->user_init(spank);
  if (failure[0] == '\0') return 0;
  needs_own_share = is_lifted_by_binding(spank);
  if (!is_ordinary_step(spank)) failure[0] = '\0';
  return 0;
}

int slurm_spank_task_init(spank_t spank, int, char*[]) {
  if (rest != nullptr) return rest->task_init(spank);
  if (failure[0] == '\0') return 0;
  if (needs_own_share && !strict) {
    log_to_user("muster: the task cannot be given GPUs of its own (%s) and ends; use srun --muster=off",
                failure);
    end_task();
  }
  give_up(spank, failure, strict, true);
  return 0;
}

int slurm_spank_exit(spank_t, int, char*[]) { return rest == nullptr ? 0 : rest->exit(); }

}  // extern "C"
#pragma GCC visibility pop
