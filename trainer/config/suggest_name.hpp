// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// "; did you mean NAME?" with the nearest of the names that continue `given`, that `given` continues, or
/// that differ from it in at most max(2, a third) of their letters. Empty when there is none.
std::string suggest_name(std::string_view given, const std::vector<std::string>& names);

}  // namespace muster
