// SPDX-License-Identifier: Apache-2.0
// The SPANK hooks. Each is a few lines and lets no exception out: an escaped one would end srun, slurmd or
// the step.
#include <unistd.h>

#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isolation.hpp"
#include "options.hpp"
#include "step.hpp"

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
// with short names.
struct Plugin {
  muster::spank::Settings settings;
  std::optional<Mode> option;
  muster::spank::Wish wish;
  std::unique_ptr<Step> step;
  std::string failure;  // of user_init, which must not fail: Slurm would drain the node
};
Plugin plugin;

constexpr int exit_config = 78;  // EX_CONFIG of BSD sysexits.h, as libmuster's Fault::environment

int on_option(int, const char* value, int) {
  try {
    const std::string text = value == nullptr ? "" : value;
    plugin.option = muster::spank::inherited_mode(text.c_str());
    if (plugin.option) return 0;
    slurm_error("muster: --muster=%s is not known: use --muster=auto, --muster=report or --muster=off",
                text.c_str());
  } catch (const std::exception& error) {
    slurm_error("muster: --muster: %s", error.what());
  }
  return -1;
}

// Runs a hook's body; a failure is logged and gives -1.
template <typename Body>
int guarded(const char* hook, Body body) noexcept {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    slurm_error("muster: %s: %s", hook, error.what());
  } catch (...) {
    slurm_error("muster: %s: unknown failure", hook);
  }
  return -1;
}

void register_option(spank_t spank) {
  static char name[] = "muster", argument[] = "auto|report|off",
              usage[] =
                  "Place each task on its GPU, cores, memory and NIC; report prints the placement table";
  static spank_option option = {name, argument, usage, 2 /* the argument is optional */, 0, on_option};
  if (spank_option_register(spank, &option) != ESPANK_SUCCESS)
    throw std::runtime_error("Slurm refused the option --muster; is another plugin using that name?");
}

std::vector<std::string> own_command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

void init(spank_t spank, int count, char* arguments[]) {
  const spank_context_t context = spank_context();
  if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE) return;
  register_option(spank);
  plugin.settings = muster::spank::parse_settings({arguments, arguments + count});
  if (context == S_CTX_LOCAL) muster::spank::ask_for_shared_devices(own_command_line());
}

// In a task that cannot be placed. When the user asked for placement the task ends here, since an `optional`
// plugin's return value stops nothing; under the administrator's default it runs with Slurm's own binding.
int give_up(const std::string& why) noexcept {
  if (!why.empty()) slurm_spank_log("muster: %s", why.c_str());
  if (plugin.wish.asked) _exit(exit_config);
  return 0;
}

// The plan failed alike for all tasks of the node: one of them says so.
std::string plan_failure(spank_t spank) {
  int local_rank = 0;
  spank_get_item(spank, S_TASK_ID, &local_rank);
  return local_rank == 0 ? plugin.failure : std::string();
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int slurm_spank_init(spank_t spank, int count, char* arguments[]) {
  const int result = guarded("init", [&] { init(spank, count, arguments); });
  // On a node a failing init drains it; srun, sbatch and salloc have reported the same mistake already.
  return spank_context() == S_CTX_REMOTE ? 0 : result;
}

int slurm_spank_user_init(spank_t spank, int, char*[]) {
  try {
    plugin.wish = resolve(plugin.option, plugin.settings);
    if (plugin.wish.mode == Mode::off || !muster::spank::is_ordinary_step(spank)) return 0;
    plugin.step = Step::plan(spank, plugin.wish);
  } catch (const std::exception& error) {
    plugin.failure = error.what();
  } catch (...) {
    plugin.failure = "unknown failure";
  }
  return 0;
}

int slurm_spank_task_init(spank_t spank, int, char*[]) {
  try {
    if (!plugin.failure.empty()) return give_up(plan_failure(spank));
    if (plugin.step != nullptr) plugin.step->apply(spank);
    return 0;
  } catch (const std::exception& error) {
    return give_up(error.what());
  } catch (...) {
    return give_up("unknown failure");
  }
}

}  // extern "C"
#pragma GCC visibility pop
