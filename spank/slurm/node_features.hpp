// SPDX-License-Identifier: Apache-2.0
// The features of a node, which Slurm tells no step: as the NodeName lines of slurm.conf give them. Features
// that were changed at run time (scontrol update, node_features plugins, slurmd --conf) are not there.
#pragma once

#include <string>
#include <vector>

namespace muster::spank {

/// The words of Features= (or Feature=) for a node, from a configuration file and what it includes;
/// NodeName=DEFAULT counts for the lines after it. Empty: none, or the file cannot be read. Includes are
/// followed eight deep and up to 16 MiB in all; their relative paths begin at the including file's folder.
std::vector<std::string> node_features(const std::string& slurm_conf, const std::string& node);

/// The slurm.conf that this slurmstepd's slurmd uses: SLURM_CONF, else the first that exists of
/// /etc/slurm/slurm.conf and /run/slurm/conf/slurm.conf (configless). Empty: none.
std::string slurm_conf_path();

}  // namespace muster::spank
