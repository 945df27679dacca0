// SPDX-License-Identifier: Apache-2.0
// What the hooks do where somebody asks for something; loaded by plugin.cpp. Each is a few lines and lets no
// exception out: an escaped one would end srun or the step.
#include "step_part.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arbitrary_layout.hpp"
#include "give_up.hpp"
#include "isolation.hpp"
#include "muster/version.hpp"
#include "options.hpp"
#include "ordinary_step.hpp"
#include "srun_command.hpp"
#include "step.hpp"
#include "step_report.hpp"
#include "task_environment.hpp"
#include "topology_cache.hpp"
#include "unplaced_task.hpp"

extern "C" {
#include <slurm/slurm_version.h>
#include <slurm/spank.h>
}

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

// Throwing needs thread-local data, and glibc ends the process when it cannot allocate that at its first use.
// One variable of this kind, and all of this file's are set aside when it is loaded, which may fail. 24 bytes
// of the 1664 that glibc keeps for it.
[[gnu::tls_model("initial-exec")]] thread_local volatile bool has_begun = false;

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

// On a node a mistake fails nothing: srun, sbatch and salloc have reported it already.
int begin(int count, char* arguments[]) {
  has_begun = true;
  char why[1024];
  if (attempt(why, [&] { plugin.settings = muster::spank::parse_settings({arguments, arguments + count}); }))
    return 0;
  slurm_error("muster: %s", why);
  return spank_context() == S_CTX_REMOTE ? 0 : -1;
}

// On a node a mistake has slipped through what srun checks.
int on_option(const char* list) {
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

int before_srun_options(spank_t spank) {
  char why[1024];
  if (attempt(why, [&] {
        const auto command_line = own_command_line();
        lift_isolation(spank, command_line);
        note_inherited_cpu_binding(command_line);
      }))
    return 0;
  slurm_error("muster: %s", why);
  return -1;
}

// In srun, after it has read its options: what the nodes will need of it, if they are to place the step.
void prepare_step(spank_t spank) {
  const auto words = plugin.option ? plugin.option : muster::spank::read_srun_command({}, read).words;
  const auto wish = resolve(words, plugin.settings);
  if (wish.mode == Mode::off) return;
  muster::spank::tell_arbitrary_layout(spank);
  if (wish.report || wish.explain) muster::spank::expect_reports(spank, wish.explain);
}

// Also where the wish could not be made up for want of memory.
bool is_strict() noexcept {
  const auto& own = plugin.option ? plugin.option->mode : std::nullopt;
  return plugin.wish.mode == Mode::strict ||
         own.value_or(plugin.settings.defaults.mode.value_or(Mode::off)) == Mode::strict;
}

int local_user_init(spank_t spank) {
  char why[1024];
  // A failure costs the step nothing: the nodes then print their tables themselves.
  if (!attempt(why, [&] { prepare_step(spank); })) slurm_verbose("muster: %s", why);
  return 0;
}

int user_init(spank_t spank) {
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

int task_init(spank_t spank) {
  using muster::spank::give_up, muster::spank::end_task, muster::spank::settle_lifted_isolation;
  char why[1024] = "";
  bool gpus_told_apart = false;
  if (plugin.failure[0] != '\0') {
    give_up(spank, plugin.failure, is_strict(), true);
  } else if (plugin.step != nullptr) {
    const bool mig = plugin.step->has_instances();
    if (mig && !settle_lifted_isolation(spank, false)) end_task();
    gpus_told_apart = attempt(why, [&] { plugin.step->apply(spank); }) && plugin.wish.parts.gpu && !mig;
    if (why[0] != '\0') give_up(spank, why, is_strict(), false);
  }
  if (!settle_lifted_isolation(spank, gpus_told_apart)) end_task();
  return 0;
}

// As root, when the tasks are over: nobody waits for it.
int exit() {
  char why[1024];
  if (spank_context() == S_CTX_REMOTE && plugin.cache && !attempt(why, [] { plugin.cache->keep(); }))
    slurm_info("muster: %s", why);
  return 0;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)
extern const muster::spank::StepPart muster_step_part;
const muster::spank::StepPart muster_step_part{sizeof(muster::spank::StepPart),
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
