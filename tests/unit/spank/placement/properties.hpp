// SPDX-License-Identifier: Apache-2.0
// Checks the guarantees of place() on its answer for any machine and request.
#pragma once

#include <random>
#include <set>

#include "placement/place/place.hpp"

namespace muster::placement::test {

/// The domains that a task's GPUs are near to, computed independently of place(); empty: unknown, or no GPU.
std::set<int> expected_near(const Node& node, const TaskPlacement& task);

/// Fails the running test if the answer violates a guarantee.
void check_properties(const Node& node, const Request& request, const Placement& placement);

/// The same machine listed in another order: domains (and their distances), cores, GPUs, NICs.
Node shuffled(Node node, std::mt19937& random);
/// The same request with its lists in another order.
Request shuffled(Request request, std::mt19937& random);

/// The answer and the machine as one text, to compare answers.
std::string as_text(const Node& node, const Placement& placement);

}  // namespace muster::placement::test
