// SPDX-License-Identifier: Apache-2.0
// The SPANK hooks. Each is a few lines and lets no exception out: an escaped one would end srun, slurmd or
// the step.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arbitrary_layout.hpp"
#include "isolation.hpp"
#include "options.hpp"
#include "srun_command.hpp"
#include "step.hpp"
#include "step_report.hpp"
#include "task_environment.hpp"
#include "topology_cache.hpp"
#include "unplaced_task.hpp"

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

using muster::spank::Mode;
using muster::spank::Step;

// One process serves one step, so this is the step's state. Internal linkage: srun has symbols of its own
// with short names. The failure is one of user_init, which must not fail itself: Slurm would drain the node.
struct Plugin {
  muster::spank::Settings settings;
  std::optional<muster::spank::Words> option;
  muster::spank::Wish wish;
  std::optional<muster::spank::TopologyCache> cache;
  std::unique_ptr<Step> step;
  char failure[1024] = "";  // fixed, so that it can be written down when memory is short
};
Plugin plugin;

constexpr int exit_config = 78;  // EX_CONFIG of BSD sysexits.h, as libmuster's Fault::environment

// Runs a body from which no exception may come; false, and the text in `why`, when it threw.
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

// Slurm calls it for --muster on a command line, and on the nodes. There a mistake has slipped through what
// srun checks and must not fail the step: that may drain the node.
int on_option(int, const char* value, int) {
  const char* list = value == nullptr ? "" : value;
  char why[sizeof plugin.failure];
  plugin.failure[0] = '\0';  // of the job's list, which the step's own replaces
  if (attempt(why, [&] { plugin.option = muster::spank::parse_words(list); })) return 0;
  if (spank_context() != S_CTX_REMOTE) {
    slurm_error("muster: --muster=%.300s: %s", list, why);
    return -1;
  }
  attempt(why, [] { plugin.option = muster::spank::Words{}; });
  std::snprintf(plugin.failure, sizeof plugin.failure, "--muster=%.300s: %.600s", list, why);
  return 0;
}

void register_option(spank_t spank) {
  static char name[] = "muster", argument[] = "auto|strict|off,WORD...",
              usage[] =
                  "Place each task on its GPU, cores, memory and NIC. WORDs: report, explain, json[=FILE]; "
                  "gpu=, cpu=, nic=, env= on|off; memory=prefer|bind|off; tasks-per-gpu=K. See muster(7)";
  static spank_option option = {name, argument, usage, 2 /* the argument is optional */, 0, on_option};
  if (spank_option_register(spank, &option) != ESPANK_SUCCESS)
    throw std::runtime_error("Slurm refused the option --muster; is another plugin using that name?");
}

// By stdio: the first stream of iostreams in a process costs as much as all else that srun does here.
std::vector<std::string> own_command_line() {
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

const char* read(const char* name) { return std::getenv(name); }

int number_item(spank_t spank, spank_item_t which) {
  const char* text = nullptr;
  return spank_get_item(spank, which, &text) == ESPANK_SUCCESS && text != nullptr ? std::atoi(text) : 0;
}

// In srun, before it reads its own options.
void lift_isolation(spank_t spank, const std::vector<std::string>& command_line) {
  const muster::spank::SlurmVersion slurm{number_item(spank, S_SLURM_VERSION_MAJOR),
                                          number_item(spank, S_SLURM_VERSION_MINOR),
                                          number_item(spank, S_SLURM_VERSION_MICRO)};
  const auto srun = muster::spank::read_srun_command(command_line, read);
  const auto lift = muster::spank::lift_isolation(slurm, srun, plugin.settings, read);
  if (!lift) return;
  setenv(muster::spank::lift_mark, mark_of(*lift).c_str(), 1);
  setenv(lift->variable.c_str(), lift->value.c_str(), 1);
}

void note_inherited_cpu_binding(const std::vector<std::string>& command_line) {
  unsetenv(muster::spank::inherited_cpu_binding);
  if (muster::spank::inherits_cpu_binding(command_line, read))
    setenv(muster::spank::inherited_cpu_binding, "1", 1);
}

void init(spank_t spank, int count, char* arguments[]) {
  const spank_context_t context = spank_context();
  if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE) return;
  register_option(spank);
  plugin.settings = muster::spank::parse_settings({arguments, arguments + count});
  if (context != S_CTX_LOCAL) return;
  const auto command_line = own_command_line();
  lift_isolation(spank, command_line);
  note_inherited_cpu_binding(command_line);
}

// In srun, after it has read its options: what the nodes will need of it, if they are to place the step.
void prepare_step(spank_t spank) {
  const auto words = plugin.option ? plugin.option : muster::spank::read_srun_command({}, read).words;
  const auto wish = resolve(words, plugin.settings);
  if (wish.mode == Mode::off) return;
  muster::spank::tell_arbitrary_layout(spank);
  if (wish.report || wish.explain) muster::spank::expect_reports(spank, wish.explain);
}

void log_of_node(const char* why, const char* then) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  slurm_spank_log("muster: %s: %s; %s", host, why, then);
}

// Also where the wish could not be made up for want of memory.
bool is_strict() noexcept {
  const auto& own = plugin.option ? plugin.option->mode : std::nullopt;
  return plugin.wish.mode == Mode::strict ||
         own.value_or(plugin.settings.defaults.mode.value_or(Mode::off)) == Mode::strict;
}

// In a task that cannot be placed. `strict` ends it here, since an `optional` plugin's return value stops
// nothing. The plan failed alike for all tasks of the node, so one of them says so.
void give_up(spank_t spank, const char* why, bool all_tasks_alike) noexcept {
  int local_rank = 0;
  spank_get_item(spank, S_TASK_ID, &local_rank);
  const bool strict = is_strict();
  if (!all_tasks_alike || local_rank == 0)
    log_of_node(why, strict ? "the step ends, as --muster=strict asks" : "Slurm's own binding stays");
  if (strict) _exit(exit_config);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int slurm_spank_init(spank_t spank, int count, char* arguments[]) {
  // Throwing needs thread-local data. The first use allocates it, and glibc ends the process when there is no
  // memory then; so it is used now.
  [[maybe_unused]] const volatile int thrown = std::uncaught_exceptions();
  char why[1024];
  if (attempt(why, [&] { init(spank, count, arguments); })) return 0;
  slurm_error("muster: %s", why);
  // On a node a failing init drains it; srun, sbatch and salloc have reported the same mistake already.
  return spank_context() == S_CTX_REMOTE ? 0 : -1;
}

int slurm_spank_local_user_init(spank_t spank, int, char*[]) {
  char why[1024];
  // A failure costs the step nothing: the nodes then print their tables themselves.
  if (!attempt(why, [&] { prepare_step(spank); })) slurm_verbose("muster: %s", why);
  return 0;
}

int slurm_spank_user_init(spank_t spank, int, char*[]) {
  muster::spank::note_step_gpus(spank);
  attempt(plugin.failure, [&] {
    plugin.wish = resolve(plugin.option, plugin.settings);
    if (plugin.failure[0] != '\0' || plugin.wish.mode == Mode::off) return;
    if (!muster::spank::is_ordinary_step(spank)) return;
    plugin.cache.emplace(plugin.settings.cache.value_or(muster::spank::default_cache));
    plugin.step = Step::plan(spank, plugin.wish, plugin.settings, *plugin.cache);
  });
  char why[1024];
  if (plugin.step == nullptr) attempt(why, [&] { muster::spank::forget_outer_step(spank); });
  return 0;
}

int slurm_spank_task_init(spank_t spank, int, char*[]) {
  char why[1024] = "";
  bool gpus_told_apart = false;
  if (plugin.failure[0] != '\0') {
    give_up(spank, plugin.failure, true);
  } else if (plugin.step != nullptr) {
    const bool mig = plugin.step->has_instances();
    if (mig && !muster::spank::settle_lifted_isolation(spank, false)) _exit(exit_config);
    gpus_told_apart = attempt(why, [&] { plugin.step->apply(spank); }) && plugin.wish.parts.gpu && !mig;
    if (why[0] != '\0') give_up(spank, why, false);
  }
  if (!muster::spank::settle_lifted_isolation(spank, gpus_told_apart)) _exit(exit_config);
  return 0;
}

// As root, when the tasks are over: nobody waits for it.
int slurm_spank_exit(spank_t, int, char*[]) {
  char why[1024];
  if (spank_context() == S_CTX_REMOTE && plugin.cache && !attempt(why, [] { plugin.cache->keep(); }))
    slurm_info("muster: %s", why);
  return 0;
}

}  // extern "C"
#pragma GCC visibility pop
