// SPDX-License-Identifier: Apache-2.0
#include "render/keys.hpp"

#include <algorithm>
#include <iterator>

namespace muster::render {

namespace {

constexpr std::int64_t most_tasks = 65536;

constexpr Key keys[] = {
    {"name", Kind::text},
    {"description", Kind::lines},
    {"profile", Kind::text},
    {"command", Kind::texts},
    {"command_comment", Kind::lines},
    {"arguments", Kind::text},
    {"nodes", Kind::count, 1, most_tasks},
    {"tasks_per_node", Kind::count, 1, most_tasks},
    {"tasks_per_gpu", Kind::count, 1, 1024},
    {"gpus_per_node", Kind::count, 0, 1024},
    {"gpus_per_task", Kind::count, 0, 1024},
    {"cores_per_node", Kind::count, 1, most_tasks},
    {"cpus_per_task", Kind::count, 1, most_tasks},
    {"memory_gib_per_task", Kind::count, 1, 1 << 20},
    {"time_minutes", Kind::count, 1, 60 * 24 * 365},
    {"preemptible", Kind::flag},
    {"elastic", Kind::flag},
    {"restarts", Kind::count, 0, 1000},
    {"image", Kind::text},
    {"data", Kind::text},
    {"output", Kind::text},
    {"slurm.launcher", Kind::text},
    {"slurm.mpi", Kind::text},
    {"slurm.muster", Kind::text},
    {"slurm.container", Kind::text},
    {"slurm.partition", Kind::text},
    {"slurm.account", Kind::text},
    {"slurm.qos", Kind::text},
    {"slurm.constraint", Kind::text},
    {"slurm.hint", Kind::text},
    {"slurm.log", Kind::text},
    {"slurm.signal_seconds", Kind::count, 1, 65535},
    {"slurm.options", Kind::texts},
    {"slurm.layouts", Kind::texts},
    {"kubernetes.namespace", Kind::text},
    {"kubernetes.gpu_resource", Kind::text},
    {"kubernetes.nic_resource", Kind::text},
    {"kubernetes.key_secret", Kind::text},
    {"kubernetes.data_claim", Kind::text},
    {"kubernetes.output_claim", Kind::text},
    {"kubernetes.shm_gib", Kind::count, 1, 1 << 20},
    {"mpirun.hostfile", Kind::text},
    {"mpirun.container", Kind::text},
    {"mpirun.options", Kind::texts},
};

/// Tables whose keys are names of variables.
constexpr std::string_view variable_tables[] = {"environment", "variables", "script_variables"};
constexpr std::string_view target_tables[] = {"slurm", "kubernetes", "mpirun"};

}  // namespace

std::optional<Key> find_key(std::string_view name) {
  for (const auto& key : keys)
    if (key.name == name) return key;
  const auto dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto table = name.substr(0, dot);
  if (std::find(std::begin(variable_tables), std::end(variable_tables), table) == std::end(variable_tables))
    return std::nullopt;
  return Key{name, Kind::text};
}

bool is_table(std::string_view name) {
  const auto has = [name](const auto& list) {
    return std::find(std::begin(list), std::end(list), name) != std::end(list);
  };
  return has(variable_tables) || has(target_tables);
}

std::string expected(const Key& key) {
  switch (key.kind) {
    case Kind::count:
      return "a whole number from " + std::to_string(key.least) + " to " + std::to_string(key.most);
    case Kind::flag:
      return "true or false";
    case Kind::texts:
      return "a list of texts, such as [\"python3\", \"train.py\"]";
    case Kind::lines:
      return "a text or a list of texts";
    case Kind::text:
      break;
  }
  return "a text in quotes";
}

std::string known_keys(std::string_view table) {
  std::string list;
  for (const auto& key : keys) {
    const auto dot = key.name.find('.');
    const auto own_table = dot == std::string_view::npos ? std::string_view() : key.name.substr(0, dot);
    if (own_table != table) continue;
    list += (list.empty() ? "" : ", ") +
            std::string(dot == std::string_view::npos ? key.name : key.name.substr(dot + 1));
  }
  if (table.empty())
    for (const auto tables : {std::begin(variable_tables), std::begin(target_tables)})
      for (int i = 0; i < 3; ++i) list += ", [" + std::string(tables[i]) + "]";
  return list;
}

}  // namespace muster::render
