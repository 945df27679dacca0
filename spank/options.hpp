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
  automatic,  ///< place every task; where that fails, say why and leave Slurm's own binding
  strict,     ///< place every task; where that fails, end the step
};

enum class MemoryPolicy {
  off,     ///< leave Slurm's policy
  prefer,  ///< memory of the chosen domains first, elsewhere when they are full
  bind,    ///< memory of the chosen domains only
};

/// Which GPUs CUDA shows a task.
enum class Visible {
  own,   ///< its own alone
  node,  ///< all GPUs of the step on the node, in an order in which a task's own stand at its local rank
};

/// What of a placement is applied to the tasks.
struct Parts {
  bool gpu = true;  ///< narrow CUDA_VISIBLE_DEVICES to the task's own GPUs
  bool cpu = true;  ///< bind to the cores; else Slurm's affinity stays
  MemoryPolicy memory = MemoryPolicy::prefer;
  bool nic = true;    ///< the variables that name network devices
  bool env = true;    ///< any variable at all
  bool ranks = true;  ///< RANK and the like, by which frameworks find each other
};

/// One comma list, as it was written: what it does not mention is unset.
struct Words {
  std::optional<Mode> mode;
  std::optional<bool> gpu, cpu, nic, env, ranks;
  std::optional<MemoryPolicy> memory;
  std::optional<Visible> visible;
  bool report = false;
  bool explain = false;
  std::optional<std::string> json;  ///< the file; empty: the plugin names it
  int tasks_per_gpu = 0;            ///< 0: not asked for
};

/// What a list may be at most: more than all words with the longest path of Linux.
inline constexpr std::size_t longest_list = 8192;
inline constexpr std::size_t most_words = 64;

/// Reads a list such as "auto,cpu=off,memory=bind,report"; "" and "(null)", as Slurm hands on an option
/// without a value, are no words at all. `defaults`: the list is the administrator's, where `off` may stand
/// beside parts and no output may be asked for.
/// Takes time by the length of the list.
/// @throws std::invalid_argument with one line that names the word and the possible ones, the two words that
/// contradict each other, or what a list may be at most.
Words parse_words(std::string_view list, bool defaults = false);

/// Whether the tasks of a node may open each other's GPUs.
enum class Isolation {
  share,  ///< ask srun to leave the step's GPUs visible in all its tasks
  keep,   ///< as Slurm makes it
};

/// The plugin's arguments in plugstack.conf.
struct Settings {
  Words defaults;  ///< default=LIST
  Isolation isolation = Isolation::share;
  std::string topology;  ///< topology=FILE: overrides the live locality; empty: none
  std::string profiles;  ///< profiles=DIR: the administrator's profiles; empty: the built-in folder
  std::optional<std::string> cache;  ///< cache=DIR; empty: cache=off; unset: the built-in folder
};

/// Reads plugstack.conf arguments.
/// @throws std::invalid_argument with one line for an unknown argument or value.
Settings parse_settings(const std::vector<std::string_view>& arguments);

/// What is to be done with one step.
struct Wish {
  Mode mode = Mode::off;
  bool asked = false;  ///< by the user; a default leaves steps without GPUs alone
  Parts parts;
  std::optional<Visible> visible;  ///< unset: as Slurm would show the GPUs
  bool report = false;
  bool explain = false;
  std::optional<std::string> json;
  int tasks_per_gpu = 0;
};

/// The user's words (unset when --muster was not given), and for each part that they do not mention the
/// administrator's default. Words without a mode mean the default mode, `auto` where that is off.
Wish resolve(const std::optional<Words>& option, const Settings& settings);

/// Whether a derived variable belongs to a part that is switched off.
bool is_switched_off(const Parts& parts, std::string_view variable);

}  // namespace muster::spank
