// SPDX-License-Identifier: Apache-2.0
// Parts that the manifests for Kubernetes share. Each text is lines, indented by so many spaces.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "render/job_description.hpp"

namespace muster::render {

/// Refuses what no manifest can do.
void check_for_kubernetes(const JobDescription& job);

/// Comments, apiVersion, kind and metadata.
std::string manifest_head(const JobDescription& job, const std::string& target, const std::string& api,
                          const std::string& kind);

/// `lines` behind so many spaces each.
std::string indented(std::size_t spaces, const std::string& lines);

/// "[muster, exec]"
std::string yaml_list(const std::vector<std::string>& scalars);

std::string image_line(const JobDescription& job);

/// The command of a rank: "muster exec --" and the program; and its arguments.
std::vector<std::string> program_words(const JobDescription& job);
std::string arguments_line(const JobDescription& job);

/// Variables with their values; those of the job's environment come last.
std::string environment_lines(const JobDescription& job,
                              const std::vector<std::pair<std::string, std::string>>& own);

/// resources, securityContext and volumeMounts of a container with so many tasks.
std::string container_lines(const JobDescription& job, int tasks, int gpus);
std::string volume_lines(const JobDescription& job, int tasks);

/// Where the job's key is mounted; empty if it has none.
std::string key_file(const JobDescription& job);

}  // namespace muster::render
