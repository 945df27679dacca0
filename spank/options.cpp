// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <stdexcept>

namespace muster::spank {

namespace {

constexpr std::string_view all_words =
    "auto, strict, off, gpu=, cpu=, nic=, ranks= or env= with on or off, visible= with own or node, memory= "
    "with prefer, bind or off, report, explain, json[=FILE], tasks-per-gpu=K";
constexpr int most_tasks_per_gpu = 1024;  // far above CUDA's own limit of 48 or 60 clients of one MPS server

std::string quoted(std::string_view word) {
  constexpr std::size_t longest = 80;  // a message is one line whatever was typed
  std::string text = "'";
  for (const char letter : word.substr(0, longest))
    text += static_cast<unsigned char>(letter) < ' ' ? '?' : letter;
  return text + (word.size() > longest ? "…'" : "'");
}

[[noreturn]] void refuse(std::string_view word, const std::string& use) {
  throw std::invalid_argument(quoted(word) + " is not known: use " + use);
}

[[noreturn]] void contradict(std::string_view one, std::string_view other) {
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
  while (true) {
    const std::size_t comma = list.find(',');
    const std::string_view text = list.substr(0, comma);
    const std::size_t equal = text.find('=');
    const bool has_value = equal != std::string_view::npos;
    words.push_back({text, text.substr(0, equal), has_value ? text.substr(equal + 1) : "", has_value});
    if (comma == std::string_view::npos) return words;
    list.remove_prefix(comma + 1);
  }
}

std::optional<Mode> mode_of(const Word& word) {
  if (word.text == "auto") return Mode::automatic;
  if (word.text == "strict") return Mode::strict;
  if (word.text == "off") return Mode::off;
  return std::nullopt;
}

bool switch_of(const Word& word) {
  if (word.value == "on") return true;
  if (word.value == "off") return false;
  const std::string key(word.key);
  refuse(word.text, key + "=on or " + key + "=off");
}

MemoryPolicy memory_of(const Word& word) {
  if (word.value == "prefer") return MemoryPolicy::prefer;
  if (word.value == "bind") return MemoryPolicy::bind;
  if (word.value == "off") return MemoryPolicy::off;
  refuse(word.text, "memory=prefer, memory=bind or memory=off");
}

Visible visible_of(const Word& word) {
  if (word.value == "own") return Visible::own;
  if (word.value == "node") return Visible::node;
  refuse(word.text, "visible=own or visible=node");
}

int count_of(const Word& word) {
  int count = 0;
  const char* end = word.value.data() + word.value.size();
  const auto [stop, error] = std::from_chars(word.value.data(), end, count);
  if (error != std::errc() || stop != end || count < 1 || count > most_tasks_per_gpu)
    refuse(word.text, "tasks-per-gpu=K with K from 1 to " + std::to_string(most_tasks_per_gpu));
  return count;
}

std::optional<bool>* switch_for(Words& words, std::string_view key) {
  if (key == "gpu") return &words.gpu;
  if (key == "cpu") return &words.cpu;
  if (key == "nic") return &words.nic;
  if (key == "env") return &words.env;
  if (key == "ranks") return &words.ranks;
  return nullptr;
}

bool take_output(Words& words, const Word& word) {
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

void take(Words& words, const Word& word) {
  if (const auto mode = mode_of(word))
    words.mode = mode;
  else if (word.key == "memory")
    words.memory = memory_of(word);
  else if (word.key == "visible")
    words.visible = visible_of(word);
  else if (word.key == "tasks-per-gpu")
    words.tasks_per_gpu = count_of(word);
  else if (auto* part = switch_for(words, word.key))
    *part = switch_of(word);
  else if (!take_output(words, word))
    refuse(word.text, std::string(all_words));
}

// Two words of one kind that differ; `off` beside anything else. The words are known: there are a few kinds.
void check(const std::vector<Word>& words, bool defaults) {
  std::map<std::string_view, std::string_view> of_kind;
  for (const Word& word : words) {
    const auto [first, is_first] = of_kind.emplace(mode_of(word) ? "mode" : word.key, word.text);
    if (first->second != word.text) contradict(first->second, word.text);
  }
  const auto mode = of_kind.find("mode");
  if (defaults || mode == of_kind.end() || mode->second != "off" || of_kind.size() == 1) return;
  const auto part = std::find_if(words.begin(), words.end(), [](const Word& word) { return !mode_of(word); });
  if (part == words.begin()) contradict(part->text, "off");
  contradict("off", part->text);
}

std::string absolute_path(std::string_view argument, std::string_view value) {
  if (!value.starts_with('/'))
    throw std::invalid_argument("plugstack.conf: " + quoted(argument) +
                                " for spank_muster.so wants an absolute path");
  return std::string(value);
}

void take_argument(Settings& settings, std::string_view argument) {
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
    refuse(argument,
           "default=auto, default=strict or default=off (parts may follow: default=auto,memory=off), "
           "isolation=share or isolation=keep, topology=FILE, profiles=DIR, cache=DIR or cache=off");
}

}  // namespace

Words parse_words(std::string_view list, bool defaults) {
  Words words;
  if (list.empty() || list == "(null)") return words;
  const std::vector<Word> parts = split_words(list);
  for (const Word& word : parts) take(words, word);
  check(parts, defaults);
  if (words.env == false && words.nic == true) contradict("env=off", "nic=on");
  if (words.env == false && words.gpu == true) contradict("env=off", "gpu=on");
  if (words.env == false && words.ranks == true) contradict("env=off", "ranks=on");
  if (words.visible && (words.env == false || words.gpu == false))
    contradict(words.gpu == false ? "gpu=off" : "env=off",
               words.visible == Visible::own ? "visible=own" : "visible=node");
  if (defaults && (words.report || words.explain || words.json || words.tasks_per_gpu > 0))
    throw std::invalid_argument(quoted(list) +
                                " is no default: report, explain, json and tasks-per-gpu are for users");
  return words;
}

Settings parse_settings(const std::vector<std::string_view>& arguments) {
  Settings settings;
  for (const std::string_view argument : arguments) try {
      take_argument(settings, argument);
    } catch (const std::invalid_argument& error) {
      const std::string text = error.what();
      if (text.starts_with("plugstack.conf")) throw;
      throw std::invalid_argument("plugstack.conf: spank_muster.so: " + text);
    }
  return settings;
}

Wish resolve(const std::optional<Words>& option, const Settings& settings) {
  const Words& defaults = settings.defaults;
  const Mode default_mode = defaults.mode.value_or(Mode::off);
  const Words own = option.value_or(Words{});
  Wish wish;
  wish.asked = option.has_value();
  wish.mode = default_mode;
  if (option) wish.mode = own.mode.value_or(default_mode == Mode::off ? Mode::automatic : default_mode);
  const auto pick = [](const auto& first, const auto& second, auto fallback) {
    return first.value_or(second.value_or(fallback));
  };
  wish.parts.env = pick(own.env, defaults.env, true);
  wish.parts.gpu = wish.parts.env && pick(own.gpu, defaults.gpu, true);
  wish.parts.nic = wish.parts.env && pick(own.nic, defaults.nic, true);
  wish.parts.ranks = wish.parts.env && pick(own.ranks, defaults.ranks, true);
  wish.visible = own.visible ? own.visible : defaults.visible;
  wish.parts.cpu = pick(own.cpu, defaults.cpu, true);
  wish.parts.memory = pick(own.memory, defaults.memory, MemoryPolicy::prefer);
  wish.report = own.report;
  wish.explain = own.explain;
  wish.json = own.json;
  wish.tasks_per_gpu = own.tasks_per_gpu;
  return wish;
}

bool is_switched_off(const Parts& parts, std::string_view variable) {
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
