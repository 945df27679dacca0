// SPDX-License-Identifier: Apache-2.0
// The features of a node, which Slurm does not pass to a step: from the NodeName lines of slurm.conf.
// Features that were changed at run time (scontrol update, node_features plugins, slurmd --conf) are not
// included.
#pragma once

#include <string>
#include <vector>

namespace muster::spank {

/// The features in Features= (or Feature=) of a node, from a configuration file and the files that it
/// includes. NodeName=DEFAULT applies to the lines after it. Empty: none, or the file cannot be read.
/// Includes are followed eight deep and up to 16 MiB in all; their relative paths start at the including
/// file's folder.
std::vector<std::string> node_features(const std::string& slurm_conf, const std::string& node);

/// The slurm.conf of this slurmstepd's slurmd: SLURM_CONF, else the first readable file of
/// /etc/slurm/slurm.conf and /run/slurm/conf/slurm.conf (configless). Empty: none.
std::string slurm_conf_path();

}  // namespace muster::spank
