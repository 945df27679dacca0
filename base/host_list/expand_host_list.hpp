// SPDX-License-Identifier: Apache-2.0
// Slurm's notation for lists of nodes. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

/// "n[07-09,12],x1" → n07 n08 n09 n12 x1, in the order of the list. Of several brackets in a name the last
/// varies fastest ("r[0-1]n[0-3]" → r0n0 r0n1 …). Numbers keep the width of the lower end of their range.
/// nullopt if the list is malformed, has a name of more than 255 letters, or names more than 65536 hosts (the
/// longest range that Slurm accepts, MAX_RANGE in its hostlist.c).
std::optional<std::vector<std::string>> expand_host_list(std::string_view list);

}  // namespace muster
