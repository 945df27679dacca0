// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "text/parse_number.hpp"
#include "text/split.hpp"

namespace muster::spank {

namespace {

constexpr std::string_view all_words =
    "auto, strict, off, gpu=, cpu=, nic=, ranks= or env= with on or off, visible= with own or node, memory= "
    "with prefer, bind or off, report, explain, json[=FILE], tasks-per-gpu=K";
constexpr int most_tasks_per_gpu = 1024;  // far above CUDA's own limit of 48 or 60 clients of one MPS server

std::string quoted(std::string_view word) {
  constexpr std::size_t longest = 80;  // a message stays one line, however long the word is
  std::string text = "'";
  for (const char letter : word.substr(0, longest))
    text += static_cast<unsigned char>(letter) < ' ' ? '?' : letter;
  return text + (word.size() > longest ? "…'" : "'");
}

[[noreturn]] void throw_unknown_word(std::string_view word, const std::string& use) {
  throw std::invalid_argument(quoted(word) + " is not known: use " + use);
}

[[noreturn]] void throw_contradiction(std::string_view one, std::string_view other) {
  throw std::invalid_argument(quoted(one) + " and " + quoted(other) + " contradict each other: use one");
}

struct Word {
  std::string_view text, key, value;
  bool has_value;
};

std::vector<Word> split_words(std::string_view list) {
  const auto count = static_cast<std::size_t>(std::count(list.begin(), list.end(), ',')) + 1;
  if (list.size() > longest_list || count > most_words)
    throw std::invalid_argument("the list has " + std::to_string(count) + " words in " +
                                std::to_string(list.size()) + " bytes: at most " +
                                std::to_string(most_words) + " in " + std::to_string(longest_list));
  std::vector<Word> words;
  for (const auto text : split(list, ',')) {
    const std::size_t equal = text.find('=');
    const bool has_value = equal != std::string_view::npos;
    words.push_back({text, text.substr(0, equal), has_value ? text.substr(equal + 1) : "", has_value});
  }
  return words;
}

std::optional<Mode> parse_mode(const Word& word) {
  if (word.text == "auto") return Mode::automatic;
  if (word.text == "strict") return Mode::strict;
  if (word.text == "off") return Mode::off;
  return std::nullopt;
}

bool parse_switch(const Word& word) {
  if (word.value == "on") return true;
  if (word.value == "off") return false;
  const std::string key(word.key);
  throw_unknown_word(word.text, key + "=on or " + key + "=off");
}

MemoryPolicy parse_memory(const Word& word) {
  if (word.value == "prefer") return MemoryPolicy::prefer;
  if (word.value == "bind") return MemoryPolicy::bind;
  if (word.value == "off") return MemoryPolicy::off;
  throw_unknown_word(word.text, "memory=prefer, memory=bind or memory=off");
}

Visible parse_visible(const Word& word) {
  if (word.value == "own") return Visible::own;
  if (word.value == "node") return Visible::node;
  throw_unknown_word(word.text, "visible=own or visible=node");
}

int parse_tasks_per_gpu(const Word& word) {
  const int count = parse_number<int>(word.value).value_or(0);
  if (count < 1 || count > most_tasks_per_gpu)
    throw_unknown_word(word.text, "tasks-per-gpu=K with K from 1 to " + std::to_string(most_tasks_per_gpu));
  return count;
}

std::optional<bool>* find_switch(OptionWords& words, std::string_view key) {
  if (key == "gpu") return &words.gpu;
  if (key == "cpu") return &words.cpu;
  if (key == "nic") return &words.nic;
  if (key == "env") return &words.env;
  if (key == "ranks") return &words.ranks;
  return nullptr;
}

bool apply_output(OptionWords& words, const Word& word) {
  if (word.text == "report")
    words.report = true;
  else if (word.text == "explain")
    words.explain = true;
  else if (word.key == "json" && !(word.has_value && word.value.empty()))
    words.json = std::string(word.value);
  else
    return false;
  return true;
}

void apply_word(OptionWords& words, const Word& word) {
  if (const auto mode = parse_mode(word))
    words.mode = mode;
  else if (word.key == "memory")
    words.memory = parse_memory(word);
  else if (word.key == "visible")
    words.visible = parse_visible(word);
  else if (word.key == "tasks-per-gpu")
    words.tasks_per_gpu = parse_tasks_per_gpu(word);
  else if (auto* part = find_switch(words, word.key))
    *part = parse_switch(word);
  else if (!apply_output(words, word))
    throw_unknown_word(word.text, std::string(all_words));
}

// Rejects two different words of one kind, and `off` together with anything else. All words are known here,
// so there are only a few kinds.
void check_contradictions(const std::vector<Word>& words, bool defaults) {
  std::map<std::string_view, std::string_view> of_kind;
  for (const Word& word : words) {
    const auto [first, is_first] = of_kind.emplace(parse_mode(word) ? "mode" : word.key, word.text);
    if (first->second != word.text) throw_contradiction(first->second, word.text);
  }
  const auto mode = of_kind.find("mode");
  if (defaults || mode == of_kind.end() || mode->second != "off" || of_kind.size() == 1) return;
  const auto part =
      std::find_if(words.begin(), words.end(), [](const Word& word) { return !parse_mode(word); });
  if (part == words.begin()) throw_contradiction(part->text, "off");
  throw_contradiction("off", part->text);
}

std::string absolute_path(std::string_view argument, std::string_view value) {
  if (!value.starts_with('/'))
    throw std::invalid_argument("plugstack.conf: " + quoted(argument) +
                                " for spank_muster.so must be an absolute path");
  return std::string(value);
}

void apply_argument(Settings& settings, std::string_view argument) {
  const std::size_t equal = std::min(argument.find('='), argument.size());
  const std::string_view key = argument.substr(0, equal);
  const std::string_view value = argument.substr(std::min(equal + 1, argument.size()));
  if (key == "default" && !value.empty())
    settings.defaults = parse_words(value, true);
  else if (argument == "isolation=keep")
    settings.isolation = Isolation::keep;
  else if (argument == "isolation=share")
    settings.isolation = Isolation::share;
  else if (key == "topology")
    settings.topology = absolute_path(argument, value);
  else if (key == "profiles")
    settings.profiles = absolute_path(argument, value);
  else if (key == "cache")
    settings.cache = value == "off" ? std::string() : absolute_path(argument, value);
  else
    throw_unknown_word(
        argument,
        "default=auto, default=strict or default=off (parts may follow: default=auto,memory=off), "
        "isolation=share or isolation=keep, topology=FILE, profiles=DIR, cache=DIR or cache=off");
}

}  // namespace

OptionWords parse_words(std::string_view list, bool defaults) {
  OptionWords words;
  if (list.empty() || list == "(null)") return words;
  const std::vector<Word> parts = split_words(list);
  for (const Word& word : parts) apply_word(words, word);
  check_contradictions(parts, defaults);
  if (words.env == false && words.nic == true) throw_contradiction("env=off", "nic=on");
  if (words.env == false && words.gpu == true) throw_contradiction("env=off", "gpu=on");
  if (words.env == false && words.ranks == true) throw_contradiction("env=off", "ranks=on");
  if (words.visible && (words.env == false || words.gpu == false))
    throw_contradiction(words.gpu == false ? "gpu=off" : "env=off",
                        words.visible == Visible::own ? "visible=own" : "visible=node");
  if (defaults && (words.report || words.explain || words.json || words.tasks_per_gpu > 0))
    throw std::invalid_argument(quoted(list) +
                                " is no default: report, explain, json and tasks-per-gpu are for users");
  return words;
}

Settings parse_settings(const std::vector<std::string_view>& arguments) {
  Settings settings;
  for (const std::string_view argument : arguments) try {
      apply_argument(settings, argument);
    } catch (const std::invalid_argument& error) {
      const std::string text = error.what();
      if (text.starts_with("plugstack.conf")) throw;
      throw std::invalid_argument("plugstack.conf: spank_muster.so: " + text);
    }
  return settings;
}

StepOptions resolve(const std::optional<OptionWords>& words, const Settings& settings) {
  const OptionWords& defaults = settings.defaults;
  const Mode default_mode = defaults.mode.value_or(Mode::off);
  const OptionWords own = words.value_or(OptionWords{});
  StepOptions options;
  options.explicitly_requested = words.has_value();
  options.mode = default_mode;
  if (words) options.mode = own.mode.value_or(default_mode == Mode::off ? Mode::automatic : default_mode);
  const auto pick = [](const auto& first, const auto& second, auto fallback) {
    return first.value_or(second.value_or(fallback));
  };
  options.parts.env = pick(own.env, defaults.env, true);
  options.parts.gpu = options.parts.env && pick(own.gpu, defaults.gpu, true);
  options.parts.nic = options.parts.env && pick(own.nic, defaults.nic, true);
  options.parts.ranks = options.parts.env && pick(own.ranks, defaults.ranks, true);
  options.visible = own.visible ? own.visible : defaults.visible;
  options.parts.cpu = pick(own.cpu, defaults.cpu, true);
  options.parts.memory = pick(own.memory, defaults.memory, MemoryPolicy::prefer);
  options.report = own.report;
  options.explain = own.explain;
  options.json = own.json;
  options.tasks_per_gpu = own.tasks_per_gpu;
  return options;
}

bool is_switched_off(const EnabledParts& parts, std::string_view variable) {
  const auto among = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), variable) != names.end();
  };
  if (!parts.env) return true;
  if (!parts.gpu &&
      among({"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "JAX_LOCAL_DEVICE_IDS", "MUSTER_GPUS"}))
    return true;
  if (!parts.ranks && among({"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                             "MASTER_PORT", "TF_CONFIG"}))
    return true;
  if (!parts.cpu && among({"OMP_NUM_THREADS", "MUSTER_CPUS"})) return true;
  if (parts.memory == MemoryPolicy::off && variable == "MUSTER_MEMORY") return true;
  return !parts.nic && among({"NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "UCX_NET_DEVICES", "GLOO_SOCKET_IFNAME",
                              "OMPI_MCA_btl_tcp_if_include", "MUSTER_NICS"});
}

}  // namespace muster::spank
