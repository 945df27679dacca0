// SPDX-License-Identifier: Apache-2.0
// The hooks for steps that use Muster; plugin.cpp loads this file. Each hook is a few lines and lets no
// exception out: an escaped one would end srun or the step.
#include "hooks/plugin_impl.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpus/isolation.hpp"
#include "gpus/row_claims.hpp"
#include "gpus/unmanaged_task.hpp"
#include "hooks/activation_check.hpp"
#include "hooks/fail_task.hpp"
#include "hooks/step_type.hpp"
#include "hooks/unprivileged_child.hpp"
#include "log.hpp"
#include "muster/version.hpp"
#include "options.hpp"
#include "report/report_address.hpp"
#include "slurm/launcher_daemons.hpp"
#include "slurm/slurm_facts.hpp"
#include "slurm/srun_command.hpp"
#include "slurm/srun_environment.hpp"
#include "step/plan_file.hpp"
#include "step/step.hpp"
#include "step/step_output.hpp"
#include "step/step_record.hpp"
#include "step/topology_cache.hpp"

extern "C" {
#include <slurm/slurm_version.h>
#include <slurm/spank.h>
}

namespace {

using namespace muster::spank;

// One process serves one step, so this is the step's state. Internal linkage, because srun has symbols of its
// own with short names.
struct Plugin {
  Settings settings;
  // The words of --muster in srun, sbatch and salloc. On a node they stay text (`list`), which only processes
  // without privileges parse: the child that plans, and the tasks.
  std::optional<OptionWords> option;
  bool explicitly_requested = false;
  char list[longest_list + 1] = "";
  // The plan, unparsed for the same reason: a letter for its kind, then its content. Empty: nothing to do.
  std::string plan;
  RowClaims claims;  // shared by the tasks
  NodeRoot root;
  bool topology_is_new = false;  // it is not in the cache, or the cached one is out of date
  // Error of user_init, which must not fail itself: Slurm would drain the node. Of fixed size, so that it can
  // be stored when memory is short.
  char failure[1024] = "";
};
Plugin plugin;

constexpr char planned = 'p', failed = 'f';  // kinds of plan: then a step's record, or one line of text

// Throwing needs thread-local data, and glibc ends the process if it cannot allocate that at its first use.
// One initial-exec variable makes the loader reserve all thread-local data of this shared object when it
// loads it, which may fail. It takes 24 bytes of the 1664 that glibc keeps for this.
[[gnu::tls_model("initial-exec")]] thread_local volatile bool has_begun = false;

// Runs `body` and lets no exception out. False, with the text in `why`, if it threw.
template <std::size_t size, typename Body>
bool attempt(char (&why)[size], Body body) noexcept {
  try {
    body();
    return true;
  } catch (const std::bad_alloc&) {
    std::snprintf(why, size, "not enough memory");
  } catch (const std::exception& error) {
    std::snprintf(why, size, "%s", error.what());
  } catch (...) {
    std::snprintf(why, size, "unknown failure");
  }
  return false;
}

// On a node wrong arguments are no failure: srun, sbatch and salloc have reported them already.
int begin(int count, char* arguments[]) {
  has_begun = true;
  char why[1024];
  if (attempt(why, [&] { plugin.settings = parse_settings({arguments, arguments + count}); })) return 0;
  log_error("muster: %s", why);
  return spank_context() == S_CTX_REMOTE ? 0 : -1;
}

// On a node, as root: stores the text unparsed. srun, sbatch or salloc have reported what is wrong with it,
// and the processes that parse it here will report it.
void store_list(const char* list) {
  plugin.failure[0] = '\0';  // that of the job's list, which the step's own replaces
  plugin.explicitly_requested = true;
  const std::size_t length = strnlen(list, sizeof plugin.list);
  const bool fits = length < sizeof plugin.list;
  std::memcpy(plugin.list, list, fits ? length : 0);
  plugin.list[fits ? length : 0] = '\0';
  if (!fits)
    std::snprintf(plugin.failure, sizeof plugin.failure, "the list of --muster has more than %zu bytes",
                  longest_list);
}

int on_option(const char* list) {
  if (spank_context() == S_CTX_REMOTE) {
    store_list(list);
    return 0;
  }
  char why[1024];
  if (attempt(why, [&] { plugin.option = parse_words(list); })) return 0;
  log_error("muster: --muster=%.300s: %s", list, why);
  return -1;
}

// With stdio: the first iostreams stream in a process costs as much as everything else that srun does here.
std::vector<std::string> read_command_line() {
  std::vector<std::string> words;
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/self/cmdline", "re"), [](FILE* open) {
    return open == nullptr ? 0 : std::fclose(open);
  });
  char* word = nullptr;
  std::size_t size = 0;
  while (file != nullptr && getdelim(&word, &size, '\0', file.get()) > 0) words.emplace_back(word);
  std::free(word);
  return words;
}

const char* get_env(const char* name) { return std::getenv(name); }

int get_number(spank_t spank, spank_item_t which) {
  const char* text = nullptr;
  return spank_get_item(spank, which, &text) == ESPANK_SUCCESS && text != nullptr ? std::atoi(text) : 0;
}

// In srun, before it parses its own options.
void disable_isolation(spank_t spank, const SrunCommand& srun) {
  const SlurmVersion slurm{get_number(spank, S_SLURM_VERSION_MAJOR), get_number(spank, S_SLURM_VERSION_MINOR),
                           get_number(spank, S_SLURM_VERSION_MICRO)};
  const auto isolation_override = choose_isolation_override(slurm, srun, plugin.settings, get_env);
  if (!isolation_override) return;
  setenv(isolation_marker, encode_marker(*isolation_override).c_str(), 1);
  setenv(isolation_override->variable.c_str(), isolation_override->value.c_str(), 1);
}

void publish_inherited_cpu_binding(const std::vector<std::string>& command_line) {
  unsetenv(inherited_cpu_binding);
  if (inherits_cpu_binding(command_line, get_env)) setenv(inherited_cpu_binding, "1", 1);
}

// Not for a heterogeneous step, whose components have bindings of their own.
void publish_gpu_binding(const SrunCommand& srun, bool has_components) {
  unsetenv(step_gpu_binding);
  if (srun.gpu_binding && !has_components) setenv(step_gpu_binding, srun.gpu_binding->c_str(), 1);
}

int before_srun_options(spank_t spank) {
  char why[1024];
  if (attempt(why, [&] {
        const auto command_line = read_command_line();
        const auto srun = read_srun_command(command_line, get_env);
        disable_isolation(spank, srun);
        publish_inherited_cpu_binding(command_line);
        publish_gpu_binding(srun,
                            std::find(command_line.begin(), command_line.end(), ":") != command_line.end());
      }))
    return 0;
  log_error("muster: %s", why);
  return -1;
}

// In srun, after it has parsed its options: prepares what the nodes need from srun to place the step.
void prepare_step(spank_t spank) {
  const auto words = plugin.option ? plugin.option : read_srun_command({}, get_env).words;
  const auto options = resolve(words, plugin.settings);
  if (options.mode == Mode::off) return;
  publish_arbitrary_layout(spank);
  publish_port_seed();
  if (options.parts.env) request_ring_fence(spank);
  if (options.report || options.explain) start_report_collector(spank, options.explain);
}

// On a node. Works also when memory is short.
bool is_strict() noexcept {
  if (contains_word(plugin.list, "strict")) return true;
  return !contains_word(plugin.list, "auto") &&
         plugin.settings.defaults.mode.value_or(Mode::off) == Mode::strict;
}

int local_user_init(spank_t spank) {
  char why[1024];
  // A failure does not harm the step: each node then prints its own table.
  if (!attempt(why, [&] { prepare_step(spank); })) log_detail("muster: %s", why);
  return 0;
}

StepOptions read_step_options() {
  std::optional<OptionWords> words;
  if (plugin.explicitly_requested) try {
      words = parse_words(plugin.list);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("--muster=" + std::string(plugin.list).substr(0, 300) + ": " +
                                  error.what());
    }
  return resolve(words, plugin.settings);
}

// In the child without privileges, because this reads input that users can change.
ChildResult plan_in_child(spank_t spank) {
  TopologyCache cache(plugin.settings.cache.value_or(default_cache));
  ChildResult result;
  char why[sizeof plugin.failure] = "";
  const bool done = attempt(why, [&] {
    auto options = read_step_options();
    if (options.mode == Mode::off) return;
    if (is_launcher_daemon(step_program(spank))) options.parts = parts_for_daemon(options.parts);
    const auto step = plan_step(spank, options, plugin.settings, cache);
    if (step) result.bytes = planned + write_record(*step);
  });
  if (!done) result.bytes = failed + std::string(why);
  result.code = cache.is_dirty() ? 1 : 0;
  return result;
}

// Parses nothing. Without a request, plugstack.conf's default places a step only if it has GPUs.
bool may_place(spank_t spank) {
  if (!is_task_step(spank)) return false;
  if (plugin.explicitly_requested) return true;
  char start[2];
  return plugin.settings.defaults.mode.value_or(Mode::off) != Mode::off &&
         spank_getenv(spank, "SLURM_STEP_GPUS", start, sizeof start) != ESPANK_ENV_NOEXIST;
}

// Prepares what the tasks can inherit only from slurmstepd.
void prepare_tasks(spank_t spank) {
  std::uint32_t tasks = 0;
  if (spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) == ESPANK_SUCCESS)
    plugin.claims = RowClaims(tasks);
  plugin.root.hold();
}

int user_init(spank_t spank) {
  record_step_gpus(spank);
  if (plugin.failure[0] == '\0' && may_place(spank))
    attempt(plugin.failure, [&] {
      auto result = run_unprivileged([&] { return plan_in_child(spank); });
      plugin.plan = std::move(result.bytes);
      plugin.topology_is_new = result.code == 1;
      if (!plugin.plan.empty()) prepare_tasks(spank);
    });
  for (const char* variable : {inherited_cpu_binding, step_gpu_binding, report_address_variable})
    spank_unsetenv(spank, variable);
  return 0;
}

// In a task, which has dropped its privileges. Null: the task is not placed, and any error has been logged.
std::unique_ptr<Step> load_step(spank_t spank) {
  char why[sizeof plugin.failure] = "";
  std::unique_ptr<Step> step;
  if (plugin.failure[0] != '\0')
    std::memcpy(why, plugin.failure, sizeof why);
  else if (plugin.plan.starts_with(failed))
    std::snprintf(why, sizeof why, "%s", plugin.plan.c_str() + 1);
  else if (plugin.plan.starts_with(planned))
    attempt(why, [&] {
      step =
          std::make_unique<Step>(read_record(std::string_view(plugin.plan).substr(1), plugin.claims.tasks()));
    });
  if (why[0] != '\0') fail_task(spank, why, is_strict(), true);
  return step;
}

int task_init(spank_t spank) {
  char why[1024] = "";
  bool gpus_assigned = false;
  // Never destroyed: the task's program replaces this process.
  if (const auto* const step = load_step(spank).release()) {
    const bool mig = !step->gpus.instances.empty();  // Slurm assigns them to tasks, and that stays
    if (mig && !undo_isolation_override(spank, false)) exit_task();
    gpus_assigned = attempt(why, [&] { apply_step(spank, *step, plugin.claims, plugin.root); }) &&
                    step->options.parts.gpu && !mig;
    if (why[0] != '\0') fail_task(spank, why, is_strict(), false);
  } else {
    attempt(why, [&] { clear_outer_step_environment(spank); });
  }
  // The shell of an interactive step has all GPUs of its node, as without the plugin.
  if (!undo_isolation_override(spank, gpus_assigned || !is_task_step(spank))) exit_task();
  return 0;
}

// As root, after the tasks have ended, so that no task waits for it.
int exit() {
  char why[1024];
  const auto renew = [] { TopologyCache(plugin.settings.cache.value_or(default_cache)).renew(); };
  if (plugin.topology_is_new && !attempt(why, renew)) log_to_node("muster: %s", why);
  return 0;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)
extern const muster::spank::PluginHooks muster_step_part;
const muster::spank::PluginHooks muster_step_part{sizeof(muster::spank::PluginHooks),
                                                  SLURM_VERSION_NUMBER,
                                                  muster::version,
                                                  begin,
                                                  before_srun_options,
                                                  on_option,
                                                  local_user_init,
                                                  user_init,
                                                  task_init,
                                                  exit};
#pragma GCC visibility pop
}
