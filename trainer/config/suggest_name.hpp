// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// How many letters must be put in, left out, exchanged or swapped with their neighbour to make one of the
/// other (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The name that was probably meant, when one is near enough: at most a third of its letters, and at least
/// two, may be wrong. Of equally near ones the first; without any, the only one that begins so or has these
/// initials, or that has the most words in common with it.
std::optional<std::string> nearest_name(std::string_view given, const std::vector<std::string>& names);

}  // namespace muster
