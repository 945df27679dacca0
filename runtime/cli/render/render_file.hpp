// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace muster::render {

/// The script or manifest of a description. `target`: slurm, kubernetes-mpijob, jobset or mpirun. `profile`:
/// a name or a file; empty: the description's own. `assignments`: "key=value", which replace its values.
/// @throws DescriptionError
std::string render_file(const std::string& file, const std::string& target, const std::string& profile,
                        const std::vector<std::string>& assignments);

}  // namespace muster::render
