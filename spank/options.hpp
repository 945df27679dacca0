// SPDX-License-Identifier: Apache-2.0
// The words of --muster=… and the arguments in plugstack.conf. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::spank {

/// What Muster does with a step.
enum class Mode {
  off,        ///< nothing: the step runs as without the plugin
  automatic,  ///< place every task; if that fails, log the reason and keep Slurm's own binding
  strict,     ///< place every task; if that fails, end the step
};

enum class MemoryPolicy {
  off,     ///< leave Slurm's policy
  prefer,  ///< memory of the chosen domains first, elsewhere when they are full
  bind,    ///< memory of the chosen domains only
};

/// Which GPUs CUDA shows a task.
enum class Visible {
  own,   ///< only its own
  node,  ///< all GPUs of the step on the node, ordered so that a task's own are at its local rank
};

/// The parts of a placement that are applied to the tasks.
struct EnabledParts {
  bool gpu = true;  ///< narrow CUDA_VISIBLE_DEVICES to the task's own GPUs
  bool cpu = true;  ///< bind to the cores; if off, Slurm's affinity stays
  MemoryPolicy memory = MemoryPolicy::prefer;
  bool nic = true;    ///< the variables that name network devices
  bool env = true;    ///< environment variables at all
  bool ranks = true;  ///< RANK, MASTER_ADDR and the like, with which frameworks connect their ranks
};

/// One comma-separated list as it was written. A word that it does not contain is unset.
struct OptionWords {
  std::optional<Mode> mode;
  std::optional<bool> gpu, cpu, nic, env, ranks;
  std::optional<MemoryPolicy> memory;
  std::optional<Visible> visible;
  bool report = false;
  bool explain = false;
  std::optional<std::string> json;  ///< the file; empty: the plugin chooses its name
  int tasks_per_gpu = 0;            ///< 0: not requested
};

/// Limits of a list, in bytes and in words. All words with the longest path of Linux fit.
inline constexpr std::size_t longest_list = 8192;
inline constexpr std::size_t most_words = 64;

/// Parses a list such as "auto,cpu=off,memory=bind,report". "" and "(null)", which Slurm passes for an option
/// without a value, give no words. `defaults`: the list is the administrator's; it may combine `off` with
/// parts, and may not request output. Takes time in proportion to the length of the list.
/// @throws std::invalid_argument with one line that names the unknown word and the possible ones, the two
/// words that contradict each other, or the limit of a list.
OptionWords parse_words(std::string_view list, bool defaults = false);

/// Whether the tasks of a node may open each other's GPUs.
enum class Isolation {
  share,  ///< srun is set to leave the step's GPUs visible in all its tasks
  keep,   ///< as Slurm does it
};

/// The plugin's arguments in plugstack.conf.
struct Settings {
  OptionWords defaults;  ///< default=LIST
  Isolation isolation = Isolation::share;
  std::string topology;  ///< topology=FILE: overrides the live locality; empty: none
  std::string profiles;  ///< profiles=DIR: the administrator's profiles; empty: the built-in folder
  std::optional<std::string> cache;  ///< cache=DIR; empty: cache=off; unset: the built-in folder
};

/// Reads plugstack.conf arguments.
/// @throws std::invalid_argument with one line for an unknown argument or value.
Settings parse_settings(const std::vector<std::string_view>& arguments);

/// What to do with one step.
struct StepOptions {
  Mode mode = Mode::off;
  bool explicitly_requested = false;  ///< by the user; a default does not place steps without GPUs
  EnabledParts parts;
  std::optional<Visible> visible;  ///< unset: as Slurm would show the GPUs
  bool report = false;
  bool explain = false;
  std::optional<std::string> json;
  int tasks_per_gpu = 0;
};

/// The options of a step from the user's words, which are unset if --muster was not given. The
/// administrator's default applies to each part that the words do not mention. Words without a mode get the
/// default mode, or `auto` if that is off.
StepOptions resolve(const std::optional<OptionWords>& words, const Settings& settings);

/// Whether a derived variable belongs to a part that is switched off.
bool is_switched_off(const EnabledParts& parts, std::string_view variable);

}  // namespace muster::spank
