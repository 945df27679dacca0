// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// Number of letters to insert, delete, replace or swap with a neighbour to turn one text into the other
/// (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The name that the user probably meant: the nearest one with at most max(2, a third of its letters) wrong;
/// the first of equally near ones. When none is near enough: the only name that begins with `given` or has
/// these initials, or the one that shares the most words.
std::optional<std::string> suggest_name(std::string_view given, const std::vector<std::string>& names);

}  // namespace muster
