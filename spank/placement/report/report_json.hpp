// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "placement/environment/environment.hpp"
#include "placement/place/place.hpp"
#include "placement/topology/node.hpp"

namespace muster::placement {

/// The plan as JSON, schema 1 (docs/plan-json.md); indented by two spaces, ends in a newline. environments[i]
/// belongs to tasks[i]; empty: the tasks have empty environments. Bytes that are not UTF-8 become the
/// replacement character. Pure.
std::string report_json(const Node& node, const Placement& placement,
                        const std::vector<std::vector<Variable>>& environments);

}  // namespace muster::placement
