// SPDX-License-Identifier: Apache-2.0
// Parts that the scripts for Slurm and for mpirun share.
#pragma once

#include <string>
#include <vector>

#include "render/job_description.hpp"

namespace muster::render {

/// The first lines: what the job is, how to start it ("sbatch NAME.sbatch"), and where it comes from.
/// more_variables: those that the script reads beside [script_variables], such as "MOUNTS ($PWD)".
std::string script_head(const JobDescription& job, const std::string& target, const std::string& start,
                        const std::vector<std::string>& more_variables = {});

/// Checks of what the script needs: variables, arguments, data.
std::string script_checks(const JobDescription& job, const std::string& start);

/// "export NAME=VALUE" for each variable of the environment.
std::string script_environment(const JobDescription& job);

/// The command and the script's arguments as words of a shell.
std::string command_words(const JobDescription& job);

std::string comment(const std::vector<std::string>& lines);

/// "Rendered by muster render --to slurm from job.toml, description 0123456789abcdef."
std::string rendered_by(const JobDescription& job, const std::string& target);

/// The words in front of the command that start it in an Apptainer image, with its folders.
std::string apptainer_words(const JobDescription& job, const std::string& binds);

}  // namespace muster::render
