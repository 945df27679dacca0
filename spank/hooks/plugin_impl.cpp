// SPDX-License-Identifier: Apache-2.0
// What the hooks do where somebody asks for something; loaded by plugin.cpp. Each is a few lines and lets no
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
#include "hooks/activation_check.hpp"
#include "hooks/fail_task.hpp"
#include "hooks/step_type.hpp"
#include "hooks/unprivileged_child.hpp"
#include "log.hpp"
#include "muster/version.hpp"
#include "options.hpp"
#include "report/report_address.hpp"
#include "slurm/arbitrary_layout.hpp"
#include "slurm/launcher_daemons.hpp"
#include "slurm/pmix_fence.hpp"
#include "slurm/slurm_facts.hpp"
#include "slurm/srun_command.hpp"
#include "step/plan_file.hpp"
#include "step/step.hpp"
#include "step/step_report.hpp"
#include "step/task_environment.hpp"
#include "step/topology_cache.hpp"
#include "step/unmanaged_task.hpp"

extern "C" {
#include <slurm/slurm_version.h>
#include <slurm/spank.h>
}

namespace {

using muster::spank::Mode;
using muster::spank::Step;

// One process serves one step, so this is the step's state. Internal linkage: srun has symbols of its own
// with short names.
struct Plugin {
  muster::spank::Settings settings;
  // In srun, sbatch and salloc: the list of --muster. On a node it stays text until somebody without
  // privileges reads it: the process that plans, and the tasks.
  std::optional<muster::spank::Words> option;
  bool asked = false;
  char list[muster::spank::longest_list + 1] = "";
  // Likewise the plan: a letter that says what follows, and that. Empty: nothing is to be done.
  std::string plan;
  muster::spank::RowClaims claims;  // of the tasks, among themselves
  muster::spank::NodeRoot root;
  bool topology_is_new = false;  // it was not kept, or is not as it was kept
  // Of user_init, which must not fail itself: Slurm would drain the node. Fixed, so that it can be written
  // down when memory is short.
  char failure[1024] = "";
};
Plugin plugin;

constexpr char planned = 'p', failed = 'f';  // what follows in a plan: Step::to_record(), one line

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
  muster::spank::log_error("muster: %s", why);
  return spank_context() == S_CTX_REMOTE ? 0 : -1;
}

// On a node, as root: keeps the text. What is wrong with it srun, sbatch or salloc have said, as those that
// read it here will.
void keep_list(const char* list) {
  plugin.failure[0] = '\0';  // of the job's list, which the step's own replaces
  plugin.asked = true;
  const std::size_t length = strnlen(list, sizeof plugin.list);
  const bool fits = length < sizeof plugin.list;
  std::memcpy(plugin.list, list, fits ? length : 0);
  plugin.list[fits ? length : 0] = '\0';
  if (!fits)
    std::snprintf(plugin.failure, sizeof plugin.failure, "the list of --muster has more than %zu bytes",
                  muster::spank::longest_list);
}

int on_option(const char* list) {
  if (spank_context() == S_CTX_REMOTE) {
    keep_list(list);
    return 0;
  }
  char why[1024];
  if (attempt(why, [&] { plugin.option = muster::spank::parse_words(list); })) return 0;
  muster::spank::log_error("muster: --muster=%.300s: %s", list, why);
  return -1;
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
void lift_isolation(spank_t spank, const muster::spank::SrunCommand& srun) {
  const muster::spank::SlurmVersion slurm{number_item(spank, S_SLURM_VERSION_MAJOR),
                                          number_item(spank, S_SLURM_VERSION_MINOR),
                                          number_item(spank, S_SLURM_VERSION_MICRO)};
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

// Not of a heterogeneous step, whose components have bindings of their own.
void note_gpu_binding(const muster::spank::SrunCommand& srun, bool has_components) {
  unsetenv(muster::spank::step_gpu_binding);
  if (srun.gpu_binding && !has_components)
    setenv(muster::spank::step_gpu_binding, srun.gpu_binding->c_str(), 1);
}

int before_srun_options(spank_t spank) {
  char why[1024];
  if (attempt(why, [&] {
        const auto command_line = own_command_line();
        const auto srun = muster::spank::read_srun_command(command_line, read);
        lift_isolation(spank, srun);
        note_inherited_cpu_binding(command_line);
        note_gpu_binding(srun,
                         std::find(command_line.begin(), command_line.end(), ":") != command_line.end());
      }))
    return 0;
  muster::spank::log_error("muster: %s", why);
  return -1;
}

// In srun, after it has read its options: what the nodes will need of it, if they are to place the step.
void prepare_step(spank_t spank) {
  const auto words = plugin.option ? plugin.option : muster::spank::read_srun_command({}, read).words;
  const auto wish = resolve(words, plugin.settings);
  if (wish.mode == Mode::off) return;
  muster::spank::tell_arbitrary_layout(spank);
  if (wish.parts.env) muster::spank::ask_for_ring_fence(spank);
  if (wish.report || wish.explain) muster::spank::expect_reports(spank, wish.explain);
}

// On a node, also when memory is short.
bool is_strict() noexcept {
  if (muster::spank::lists(plugin.list, "strict")) return true;
  return !muster::spank::lists(plugin.list, "auto") &&
         plugin.settings.defaults.mode.value_or(Mode::off) == Mode::strict;
}

int local_user_init(spank_t spank) {
  char why[1024];
  // A failure costs the step nothing: the nodes then print their tables themselves.
  if (!attempt(why, [&] { prepare_step(spank); })) muster::spank::log_detail("muster: %s", why);
  return 0;
}

muster::spank::Wish own_wish() {
  std::optional<muster::spank::Words> words;
  if (plugin.asked) try {
      words = muster::spank::parse_words(plugin.list);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("--muster=" + std::string(plugin.list).substr(0, 300) + ": " +
                                  error.what());
    }
  return resolve(words, plugin.settings);
}

// In the process without privileges: all that reads what users can change.
muster::spank::ChildAnswer plan_step(spank_t spank) {
  muster::spank::TopologyCache cache(plugin.settings.cache.value_or(muster::spank::default_cache));
  muster::spank::ChildAnswer answer;
  char why[sizeof plugin.failure] = "";
  const bool done = attempt(why, [&] {
    auto wish = own_wish();
    if (wish.mode == Mode::off) return;
    if (muster::spank::is_launcher_daemon(muster::spank::step_program(spank)))
      wish.parts = muster::spank::parts_for_daemon(wish.parts);
    const auto step = Step::plan(spank, wish, plugin.settings, cache);
    if (step != nullptr) answer.bytes = planned + step->to_record();
  });
  if (!done) answer.bytes = failed + std::string(why);
  answer.code = cache.has_news() ? 1 : 0;
  return answer;
}

// Without reading anything: a step that nobody asked to be placed is, by default, where it has GPUs.
bool may_place(spank_t spank) {
  if (!muster::spank::is_ordinary_step(spank)) return false;
  if (plugin.asked) return true;
  char start[2];
  return plugin.settings.defaults.mode.value_or(Mode::off) != Mode::off &&
         spank_getenv(spank, "SLURM_STEP_GPUS", start, sizeof start) != ESPANK_ENV_NOEXIST;
}

// What the tasks inherit from slurmstepd and from no other process.
void prepare_tasks(spank_t spank) {
  std::uint32_t tasks = 0;
  if (spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) == ESPANK_SUCCESS)
    plugin.claims = muster::spank::RowClaims(tasks);
  plugin.root.hold();
}

int user_init(spank_t spank) {
  muster::spank::note_step_gpus(spank);
  if (plugin.failure[0] == '\0' && may_place(spank))
    attempt(plugin.failure, [&] {
      auto answer = muster::spank::run_unprivileged([&] { return plan_step(spank); });
      plugin.plan = std::move(answer.bytes);
      plugin.topology_is_new = answer.code == 1;
      if (!plugin.plan.empty()) prepare_tasks(spank);
    });
  for (const char* variable : {muster::spank::inherited_cpu_binding, muster::spank::step_gpu_binding,
                               muster::spank::report_address_variable})
    spank_unsetenv(spank, variable);
  return 0;
}

// In a task, which has no privileges any more. Null: the task is not placed, and has been told why.
std::unique_ptr<Step> own_step(spank_t spank) {
  char why[sizeof plugin.failure] = "";
  std::unique_ptr<Step> step;
  if (plugin.failure[0] != '\0')
    std::memcpy(why, plugin.failure, sizeof why);
  else if (plugin.plan.starts_with(failed))
    std::snprintf(why, sizeof why, "%s", plugin.plan.c_str() + 1);
  else if (plugin.plan.starts_with(planned))
    attempt(why, [&] {
      step =
          Step::from_record(std::string_view(plugin.plan).substr(1), std::move(plugin.claims), plugin.root);
    });
  if (why[0] != '\0') muster::spank::give_up(spank, why, is_strict(), true);
  return step;
}

int task_init(spank_t spank) {
  using muster::spank::end_task, muster::spank::settle_lifted_isolation;
  char why[1024] = "";
  bool gpus_told_apart = false;
  // Never taken apart: the task's program takes this process's place.
  if (auto* const step = own_step(spank).release()) {
    const bool mig = step->has_instances();
    if (mig && !settle_lifted_isolation(spank, false)) end_task();
    gpus_told_apart = attempt(why, [&] { step->apply(spank); }) && step->wish().parts.gpu && !mig;
    if (why[0] != '\0') muster::spank::give_up(spank, why, is_strict(), false);
  } else {
    attempt(why, [&] { muster::spank::forget_outer_step(spank); });
  }
  if (!settle_lifted_isolation(spank, gpus_told_apart)) end_task();
  return 0;
}

// As root, when the tasks are over: nobody waits for it.
int exit() {
  char why[1024];
  const auto renew = [] {
    muster::spank::TopologyCache(plugin.settings.cache.value_or(muster::spank::default_cache)).renew();
  };
  if (plugin.topology_is_new && !attempt(why, renew)) muster::spank::log_to_node("muster: %s", why);
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
