// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace muster {

/// Hosts in Slurm's notation, sorted, each once: {"n1", "n0", "x", "n09"} → "n[0-1,09],x". Only numbers with
/// the same prefix, width and domain suffix are combined. Pure.
std::string fold_host_list(const std::vector<std::string>& hosts);

/// Numbers as ranges, sorted, each once: {3, 0, 1, 2, 8} → "0-3,8". Pure.
std::string fold_numbers(std::vector<int> numbers);

}  // namespace muster
