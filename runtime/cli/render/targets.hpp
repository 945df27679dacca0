// SPDX-License-Identifier: Apache-2.0
// What a job becomes: a script or a manifest. All functions are pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "render/job_description.hpp"

namespace muster::render {

/// Other layouts of a job, with a description of each.
using Layouts = std::vector<std::pair<std::string, JobDescription>>;

/// @throws DescriptionError where the target cannot do what the description asks for; all of these.
std::string slurm_script(const JobDescription& job, const Layouts& layouts);
std::string mpirun_script(const JobDescription& job);
std::string jobset_manifest(const JobDescription& job);
std::string mpijob_manifest(const JobDescription& job);

}  // namespace muster::render
