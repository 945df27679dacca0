// SPDX-License-Identifier: Apache-2.0
// A job as plain data, from the settings of a description.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "render/settings.hpp"
#include "render/word.hpp"

namespace muster::render {

struct JobDescription {
  std::string file;     ///< the description's file name, without folders
  std::string profile;  ///< empty: none
  std::string hash;

  std::string name;
  std::vector<std::string> description, command_comment;
  std::vector<Word> command;
  std::string arguments;  ///< what may follow the name of a script; empty: nothing
  std::vector<std::pair<std::string, Word>> environment;
  std::vector<Piece> script_variables;

  int nodes = 1, tasks_per_node = 1, tasks_per_gpu = 1;
  int gpus_per_task = 1;  ///< 0 where several tasks share a GPU
  int gpus_per_node = 0;  ///< that the tasks of a node use
  int cpus_per_task = 1;
  int memory_gib_per_task = 0;  ///< 0: not given
  int time_minutes = 0;         ///< 0: no limit
  bool preemptible = false, elastic = false;
  int restarts = 3;
  std::optional<Word> image;
  std::string data, output;  ///< folders; empty: none

  Settings settings;  ///< all, for the tables of the targets

  int tasks() const { return nodes * tasks_per_node; }
  bool arguments_required() const { return !arguments.empty() && arguments.front() != '['; }
};

/// @throws DescriptionError for a missing key, an impossible combination or ${NAME} without a value.
JobDescription make_description(const Settings& settings, const std::string& file);

/// A text of a target's table, such as "slurm.partition".
std::string text_of(const JobDescription& job, const std::string& key, const std::string& otherwise);
Word word_of(const JobDescription& job, const std::string& key, const std::string& otherwise);
int count_of(const JobDescription& job, const std::string& key, int otherwise);
std::vector<std::string> texts_of(const JobDescription& job, const std::string& key);

/// "job.toml, line 3", or the file alone where the key is not given.
std::string origin_of(const JobDescription& job, const std::string& key);

}  // namespace muster::render
